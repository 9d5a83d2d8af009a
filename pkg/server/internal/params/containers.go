package params

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/containers"
)

// Containers is a request for /v1alpha1/containers.
type Containers struct {
	containers.WatchOptions

	// Watch requests the stream.
	Watch bool
}

// ParseContainers parses the query of /v1alpha1/containers.
func ParseContainers(raw string) (*Containers, error) {
	q, err := parseQuery(raw, "watch", "instance", "since", "source", "namespace", "labelSelector", "fieldSelector", "owner", "labels", "owners")
	if err != nil {
		return nil, err
	}
	c := &Containers{Watch: q.bool("watch", false)}
	c.Labels, c.Owners, c.Instance = q.bool("labels", false), q.bool("owners", false), q.values["instance"]
	if s := q.values["since"]; s != "" {
		since, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			q.Add("since", notRevision(strconv.Quote(s)))
		}
		c.Since = new(int64(since))
	}
	c.Selector = q.selector(parseContainerFields, q.values["source"], q.values["labelSelector"], q.values["fieldSelector"], q.values["owner"])
	c.Selector.Namespace = q.values["namespace"]
	if c.Since != nil && !c.Watch {
		q.Add("since", errors.New("requires watch=true"))
	}
	q.checkContainers(&c.WatchOptions)
	return c, q.Err()
}

// WatchContainers converts a request for the stream of containers.
func WatchContainers(request *v1alpha1.WatchContainersRequest) (containers.WatchOptions, error) {
	f := Faults{fields: selectorFields}
	opts := f.containers(request)
	opts.Instance, opts.Since = request.GetInstance(), request.Since
	if opts.Since != nil && *opts.Since < 0 {
		f.Add("since", notRevision(*opts.Since))
	}
	f.checkContainers(&opts)
	return opts, f.Err()
}

// ListContainers converts a request for a list of containers.
func ListContainers(request *v1alpha1.ListContainersRequest) (containers.WatchOptions, error) {
	f := Faults{fields: selectorFields}
	opts := f.containers(request)
	f.checkContainers(&opts)
	return opts, f.Err()
}

// containers converts what both requests have.
func (f *Faults) containers(request interface {
	GetSelector() *v1alpha1.PodSelector
	GetLabels() bool
	GetOwners() bool
},
) containers.WatchOptions {
	opts := containers.WatchOptions{Labels: request.GetLabels(), Owners: request.GetOwners()}
	opts.Selector, _ = f.selection(parseContainerFields, request.GetSelector(), nil)
	if opts.Selector.NoMirrorPods {
		f.Add("selector.no_mirror_pods", errors.New("not supported for containers"))
	}
	return opts
}

// checkContainers checks what depends on several parameters.
func (f *Faults) checkContainers(opts *containers.WatchOptions) {
	if opts.Since == nil && opts.Instance != "" {
		f.Add("instance", errors.New("requires since"))
	}
}

// parseContainerFields parses a selector of the fields by which containers are selected. A container does not follow other fields of its
// pod.
func parseContainerFields(s string) (fields.Selector, error) {
	return podfields.ParseSelectorOf(s, []string{"metadata.name", "metadata.namespace", "metadata.uid"})
}
