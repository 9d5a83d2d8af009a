package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// LookupQuery selects a pod, or a container and its pod. Exactly one of the first five fields
// must be set.
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

	// StartTime is the start time of the process of PID: field 22 of /proc/PID/stat. If
	// another process has the PID now, it is not found. 0 accepts any process.
	StartTime uint64
	// Wait is how long the daemon waits for the container and its pod, at most a minute. It
	// answers as soon as it knows both.
	Wait time.Duration
	// Pods requests the whole pods.
	Pods bool
}

// Lookup returns which pod and which container a container ID, a pod UID or IP, a process or
// a cgroup belongs to. It returns a [RefusedError] with code 404 if there is none, and with
// code 503 if the daemon does not know yet, or has no container runtime.
func (c *Client) Lookup(ctx context.Context, q LookupQuery) (*v1alpha1.Lookup, error) {
	query := make(url.Values, 2)
	set := func(name, value string, given bool) {
		if given {
			query.Set(name, value)
		}
	}
	set("containerID", q.ContainerID, q.ContainerID != "")
	set("podUID", q.PodUID, q.PodUID != "")
	set("podIP", q.PodIP, q.PodIP != "")
	set("pid", strconv.Itoa(q.PID), q.PID != 0)
	set("cgroup", q.Cgroup, q.Cgroup != "")
	set("startTime", strconv.FormatUint(q.StartTime, 10), q.StartTime != 0)
	set("wait", q.Wait.String(), q.Wait != 0)
	set("pods", "true", q.Pods)
	answer := new(v1alpha1.Lookup)
	return answer, c.getJSONWith(ctx, c.lookups, "/v1alpha1/lookup", query, answer)
}
