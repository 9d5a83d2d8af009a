package client

import (
	"context"
	"iter"
	"net/url"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// ContainerOptions selects containers of the container runtime. The fields have the names of the parameters of
// /v1alpha1/containers. Empty fields are not sent.
type ContainerOptions struct {
	// Source, Namespace, LabelSelector, FieldSelector and Owner select containers by their pods. Owner requires --owners of the daemon.
	Source, Namespace, LabelSelector, FieldSelector, Owner string
	// Labels and Owners request those of the pods. Owners requires --owners of the daemon.
	Labels, Owners bool

	// Instance and Since resume a stream of an earlier run. Use the instance and revision of the last handled update with a
	// revision. List ignores them, and the fields that follow.
	Instance string
	Since    int64
	// OnDisconnect and Once are those of Options.
	OnDisconnect func(err error, retryIn time.Duration)
	Once         bool
}

func (o *ContainerOptions) query() url.Values {
	query := url.Values{}
	set(query, "source", o.Source)
	set(query, "namespace", o.Namespace)
	set(query, "labelSelector", o.LabelSelector)
	set(query, "fieldSelector", o.FieldSelector)
	set(query, "owner", o.Owner)
	set(query, "labels", o.Labels)
	set(query, "owners", o.Owners)
	return query
}

// ListContainers returns the containers and sandboxes of the container runtime. It returns a [RefusedError] with code 501 if the
// daemon has no runtime, and with code 503 if the runtime has not answered yet.
func (c *Client) ListContainers(ctx context.Context, opts ContainerOptions) (*v1alpha1.Containers, error) {
	list := new(v1alpha1.Containers)
	return list, c.getJSON(ctx, c.http, "/v1alpha1/containers", opts.query(), list)
}

// WatchContainers yields the changes of the containers and sandboxes of the container runtime: first the present ones and a
// BOOKMARK, then each change. It reconnects, resumes and ends as Updates does. After an update with Reset, forget every container.
func (c *Client) WatchContainers(ctx context.Context, opts ContainerOptions) iter.Seq2[*v1alpha1.ContainerUpdate, error] {
	return func(yield func(*v1alpha1.ContainerUpdate, error) bool) {
		instance, since, accepted, delivered := opts.Instance, opts.Since, false, false
		deliver := func(u *v1alpha1.ContainerUpdate) bool {
			delivered = true
			if u.Reset { // the caller forgets all containers: it needs them again
				instance, since = "", 0
			}
			if !yield(u, nil) {
				return false
			}
			if u.Revision != 0 {
				instance, since = u.Instance, u.Revision
			}
			return true
		}
		read := func() (progress bool, err error) {
			before, query := since, opts.query()
			query.Set("watch", "true")
			if since != 0 {
				set(query, "instance", instance)
				set(query, "since", since)
			}
			body, err := c.Get(ctx, "/v1alpha1/containers", query)
			if err != nil {
				return false, err
			}
			defer body.Close()
			accepted = true
			if since == 0 && delivered {
				lost := &v1alpha1.ContainerUpdate{Op: v1alpha1.OpBookmark, Reset: true, Message: lostAtStart}
				if !deliver(lost) {
					return false, errStopped
				}
			}
			err = readLines(body, deliver)
			return since != 0 && since != before, err
		}
		refused := func(err error) bool { return opts.Once || isFinal(err, accepted) }
		if err := reconnect(ctx, read, refused, opts.OnDisconnect); err != nil {
			yield(nil, err)
		}
	}
}
