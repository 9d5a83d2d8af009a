package params

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/lookup"
)

var lookupParameters = []string{"containerID", "podUID", "podIP", "pid", "cgroup", "startTime", "wait", "pods"}

// ParseLookup parses the parameters of /v1alpha1/lookup. Its error names every invalid
// parameter.
func ParseLookup(raw string) (*lookup.Query, error) {
	values, err := Parameters(raw, lookupParameters)
	if err != nil {
		return nil, err
	}
	q := &lookup.Query{
		ContainerID: values["containerID"], PodUID: types.UID(values["podUID"]), PodIP: values["podIP"], Cgroup: values["cgroup"],
	}
	var errs []error
	fail := func(name string, err error) {
		if name != "" {
			err = fmt.Errorf("parameter %q: %w", name, err)
		}
		errs = append(errs, err)
	}
	if s := values["pid"]; s != "" {
		if q.PID, err = strconv.ParseInt(s, 10, 64); err != nil || q.PID == 0 {
			q.PID = 1 // it is given
			fail("pid", fmt.Errorf("%q is not a PID: expected 1 to %d", s, math.MaxInt32))
		}
	}
	if s := values["startTime"]; s != "" {
		if q.StartTime, err = strconv.ParseUint(s, 10, 64); err != nil {
			fail("startTime", fmt.Errorf("%q is not a start time: expected field 22 of /proc/PID/stat", s))
		}
	}
	if s := values["wait"]; s != "" {
		if q.Wait, err = time.ParseDuration(s); err != nil {
			fail("wait", fmt.Errorf("%q is not a wait: expected 0s to %v", s, lookup.MaxWait))
		}
	}
	if q.Pods, err = ParseBool(values["pods"], false); err != nil {
		fail("pods", err)
	}
	for _, f := range q.Validate() {
		fail(f.Name, f.Err)
	}
	return q, errors.Join(errs...)
}

// lookupFields has the names of fields that differ from those of HTTP.
var lookupFields = map[string]string{
	"containerID": "container_id", "podUID": "pod_uid", "podIP": "pod_ip", "startTime": "start_time",
	"": "target",
}

// LookupQuery converts a request. Its error has a code, and names every invalid field.
func LookupQuery(request *v1alpha1.LookupRequest) (*lookup.Query, error) {
	q := &lookup.Query{
		ContainerID: request.GetContainerId(), PodUID: types.UID(request.GetPodUid()), PodIP: request.GetPodIp(),
		PID: int64(request.GetPid()), Cgroup: request.GetCgroup(),
		StartTime: request.GetStartTime(), Pods: request.GetPods(),
	}
	var errs []error
	if wait := request.GetWait(); wait != nil {
		if err := wait.CheckValid(); err != nil {
			errs = append(errs, fmt.Errorf("wait: %w", err))
		} else {
			q.Wait = wait.AsDuration()
		}
	}
	for _, f := range q.Validate() {
		name := f.Name
		if other, differs := lookupFields[name]; differs {
			name = other
		}
		errs = append(errs, fmt.Errorf("%s: %w", name, f.Err))
	}
	if len(errs) > 0 {
		return nil, status.Error(codes.InvalidArgument, errors.Join(errs...).Error())
	}
	return q, nil
}
