package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Ping returns an error if the daemon can't be reached. It returns a [RefusedError] if the
// daemon does not accept the credentials, or is not healthy.
func (c *Client) Ping(ctx context.Context) error {
	return c.send(ctx, http.MethodGet, "/healthz", nil)
}

// Status returns the daemon's status.
func (c *Client) Status(ctx context.Context) (*v1alpha1.Status, error) {
	var status v1alpha1.Status
	return &status, c.getJSON(ctx, c.http, "/v1alpha1/status", nil, &status)
}

// Pods returns the current pods, including mirror pods.
func (c *Client) Pods(ctx context.Context) (*v1.PodList, error) {
	var pods v1.PodList
	return &pods, c.getJSON(ctx, c.http, "/pods", url.Values{"mirrorPods": {"true"}}, &pods)
}

// Get requests a path of the daemon for which the client has no method, for example /pods or
// /api/v1/pods. It returns the body of a successful answer, which the caller closes, and a
// [RefusedError] for any other answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	return c.do(ctx, c.http, http.MethodGet, path, query)
}

// Runtime returns the pods of the container runtime. It returns a [RefusedError] with code
// 404 if the daemon has no runtime.
func (c *Client) Runtime(ctx context.Context) (*v1alpha1.RuntimePods, error) {
	var pods v1alpha1.RuntimePods
	return &pods, c.getJSON(ctx, c.http, "/v1alpha1/runtime", nil, &pods)
}

// Resync sends a SYNC for one pod. It returns a [RefusedError] with code 404 if there is no
// such pod, and with 429 if there are too many requests for the pod.
func (c *Client) Resync(ctx context.Context, namespace, name string) error {
	return c.send(ctx, http.MethodPost, "/v1alpha1/resync", url.Values{"namespace": {namespace}, "name": {name}})
}

// Release merges the held set of a source, which removes pods. It returns a [RefusedError]
// with code 404 if no set of the source is held.
func (c *Client) Release(ctx context.Context, source string) error {
	return c.send(ctx, http.MethodPost, "/v1alpha1/release", url.Values{"source": {source}})
}

// ReleaseUpTo is Release for a held set that removes at most that number of pods. It returns a [RefusedError]
// with code 409 if the set removes more, for example because it was replaced by a newer one.
func (c *Client) ReleaseUpTo(ctx context.Context, source string, removes int) error {
	return c.send(ctx, http.MethodPost, "/v1alpha1/release", url.Values{"source": {source}, "removes": {strconv.Itoa(removes)}})
}

// send sends a request whose response has no content.
func (c *Client) send(ctx context.Context, method, path string, query url.Values) error {
	body, err := c.do(ctx, c.http, method, path, query)
	if err != nil {
		return err
	}
	return body.Close()
}

func (c *Client) getJSON(ctx context.Context, with *http.Client, path string, query url.Values, into any) error {
	body, err := c.do(ctx, with, http.MethodGet, path, query)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("reading the response to %s: %w", path, err)
	}
	return nil
}

// set sets a parameter, unless its value is zero.
func set[T comparable](query url.Values, name string, value T) {
	var zero T
	if value != zero {
		query.Set(name, fmt.Sprint(value))
	}
}

// LookupQuery selects a pod, or a container and its pod. Exactly one of the fields before
// StartTime must be set.
type LookupQuery struct {
	// ContainerID is the ID of a container or sandbox, as in the runtime, or as in a
	// container status: containerd://ID.
	ContainerID string
	PodUID      string
	PodIP       string
	// PID is a process, in the PID namespace of the daemon.
	PID int
	// Cgroup is the path of a cgroup, or the content of /proc/PID/cgroup.
	Cgroup string
	// CgroupID is the ID of a cgroup of version 2: of a container, of a cgroup below it, or of
	// a pod.
	CgroupID uint64
	// NetNS, MntNS, PidNS and CgroupNS are inodes of namespaces, as in /proc/PID/ns. If it is
	// one of the host, the answer has Host and no pods.
	NetNS, MntNS, PidNS, CgroupNS uint64
	// LogPath is the path of the log of a container below /var/log/pods, also of a rotated
	// one, or of a link in /var/log/containers.
	LogPath string
	// Device is a device of a container, as the kubelet names it: RESOURCE:ID, for example nvidia.com/gpu:GPU-3f5a, or
	// DRIVER:POOL/DEVICE for a device of a claim. The answer has a pod for each container with it.
	Device string
	// Self selects the client, which must be on a unix socket.
	Self bool

	// StartTime is the start time of the process of PID: field 22 of /proc/PID/stat. A process
	// that has ended is found if it was the first one of a container. 0 accepts any process.
	StartTime uint64
	// At requires PodIP or PID, and selects the pods that had the IP, or the process that had the PID, at that time: in the
	// format of RFC 3339, or a period before now, as in -10m. It is empty for now.
	At string
	// Wait is how long the daemon waits for the container and its pod, at most a minute. It
	// answers as soon as it knows both.
	Wait time.Duration
	// Pods requests the whole pods.
	Pods bool
	// NamespaceLabels and NodeLabels request the labels and annotations of the namespaces of the pods and of the node.
	NamespaceLabels, NodeLabels bool
}

// Lookup returns which pod and which container a container ID, a pod UID or IP, a process, a
// cgroup, a namespace, a log or a device belongs to. It returns a [RefusedError] with code 404 if there is
// none, with code 503 if the daemon does not know yet, and with code 501 if the query requires
// what the daemon does not have, such as a container runtime.
func (c *Client) Lookup(ctx context.Context, q LookupQuery) (*v1alpha1.Lookup, error) {
	query := make(url.Values, 2)
	set(query, "containerID", q.ContainerID)
	set(query, "podUID", q.PodUID)
	set(query, "podIP", q.PodIP)
	set(query, "pid", q.PID)
	set(query, "cgroup", q.Cgroup)
	set(query, "cgroupID", q.CgroupID)
	set(query, "netns", q.NetNS)
	set(query, "mntns", q.MntNS)
	set(query, "pidns", q.PidNS)
	set(query, "cgroupns", q.CgroupNS)
	set(query, "logPath", q.LogPath)
	set(query, "device", q.Device)
	set(query, "self", q.Self)
	set(query, "startTime", q.StartTime)
	set(query, "at", q.At)
	set(query, "wait", q.Wait)
	set(query, "pods", q.Pods)
	set(query, "namespaceLabels", q.NamespaceLabels)
	set(query, "nodeLabels", q.NodeLabels)
	answer := new(v1alpha1.Lookup)
	return answer, c.getJSON(ctx, c.lookups, "/v1alpha1/lookup", query, answer)
}

// HistoryOptions select changes. The zero value selects all.
type HistoryOptions struct {
	// Since is a period before now, as in 10m, or a time in the format of RFC 3339.
	Since string
	// Until is the end, in the same form. Newest requests the newest change first.
	Until  string
	Newest bool
	// Source is the name of a source.
	Source string
	// Pod is the name of a pod, as in kube-system/etcd-node1.
	Pod string
	// Owner is an owner of pods, as in deployment/checkout. It requires --owners of the daemon.
	Owner string
	// Pods requests the previous and the new version of the pod.
	Pods bool
	// Instance and After are a position of the stream or of a record, to get only the later changes.
	Instance string
	After    int64
}

// History returns the changes that the daemon has on disk, the oldest first unless opts has Newest. It
// requests one page after the other. An error ends the sequence. It is a [RefusedError] with code 404 if
// the daemon has no state directory, and with code 410 if the daemon deleted changes after
// the position or the last page.
func (c *Client) History(ctx context.Context, opts HistoryOptions) iter.Seq2[*v1alpha1.HistoryRecord, error] {
	first := make(url.Values)
	set(first, "since", opts.Since)
	set(first, "until", opts.Until)
	set(first, "source", opts.Source)
	set(first, "pod", opts.Pod)
	set(first, "owner", opts.Owner)
	set(first, "pods", opts.Pods)
	set(first, "instance", opts.Instance)
	set(first, "after", opts.After)
	if opts.Newest {
		set(first, "newest", true)
		set(first, "limit", 10000) // the maximum: the daemon reads at least one file for each page
	}
	return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
		query := maps.Clone(first)
		for {
			var page v1alpha1.History
			if err := c.getJSON(ctx, c.http, "/v1alpha1/history", query, &page); err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Records {
				if !yield(&page.Records[i], nil) {
					return
				}
			}
			if page.Continue == "" {
				return
			}
			query.Set("continue", page.Continue)
		}
	}
}
