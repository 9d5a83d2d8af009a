package params

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/lookup"
)

// ParseLookup parses the query of /v1alpha1/lookup.
func ParseLookup(raw string) (*lookup.Query, error) {
	q, err := parseQuery(raw, "containerID", "podUID", "podIP", "pid", "cgroup",
		"cgroupID", "netns", "mntns", "pidns", "cgroupns", "logPath", "device", "self", "startTime", "at", "wait", "pods", "namespaceLabels", "nodeLabels")
	if err != nil {
		return nil, err
	}
	v := q.values
	l := &lookup.Query{
		ContainerID: v["containerID"], PodUID: types.UID(v["podUID"]), PodIP: v["podIP"], Cgroup: v["cgroup"], LogPath: v["logPath"],
		Device: v["device"], Self: q.bool("self", false), Pods: q.bool("pods", false),
		NamespaceLabels: q.bool("namespaceLabels", false), NodeLabels: q.bool("nodeLabels", false),
	}
	if s := v["pid"]; s != "" {
		if l.PID, err = strconv.ParseInt(s, 10, 64); err != nil || l.PID == 0 {
			l.PID = 1 // it is given
			q.Add("pid", fmt.Errorf("%q is not a PID: expected 1 to %d", s, math.MaxInt32))
		}
	}
	l.CgroupID, l.NetNS, l.MntNS = q.id("cgroupID"), q.id("netns"), q.id("mntns")
	l.PidNS, l.CgroupNS = q.id("pidns"), q.id("cgroupns")
	if s := v["startTime"]; s != "" {
		if l.StartTime, err = strconv.ParseUint(s, 10, 64); err != nil {
			q.Add("startTime", fmt.Errorf("%q is not a start time: expected field 22 of /proc/PID/stat", s))
		}
	}
	if l.At, err = lookup.ParseAt(v["at"], time.Now()); err != nil {
		q.Add("at", err)
	}
	if s := v["wait"]; s != "" {
		if l.Wait, err = time.ParseDuration(s); err != nil {
			q.Add("wait", fmt.Errorf("%q is not a wait: expected 0s to %v", s, lookup.MaxWait))
		}
	}
	q.checkLookup(l)
	return l, q.Err()
}

// id parses the ID of a cgroup or a namespace. It returns 0 if it is not given.
func (q *query) id(name string) uint64 {
	s := q.values[name]
	if s == "" {
		return 0
	}
	id, err := strconv.ParseUint(s, 10, 64)
	if err != nil || id == 0 {
		q.Add(name, fmt.Errorf("%q is not an ID: expected 1 to %d", s, uint64(math.MaxUint64)))
		return 1 // it is given
	}
	return id
}

// lookupFields has the names of fields that differ from the parameters of HTTP.
var lookupFields = map[string]string{
	"containerID": "container_id", "podUID": "pod_uid", "podIP": "pod_ip", "startTime": "start_time",
	"cgroupID": "cgroup_id", "logPath": "log_path",
	"": "target",
}

// Lookup converts a request for a lookup.
func Lookup(request *v1alpha1.LookupRequest) (*lookup.Query, error) {
	f := Faults{fields: lookupFields}
	l := &lookup.Query{
		ContainerID: request.GetContainerId(), PodUID: types.UID(request.GetPodUid()), PodIP: request.GetPodIp(),
		PID: int64(request.GetPid()), Cgroup: request.GetCgroup(),
		CgroupID: request.GetCgroupId(), LogPath: request.GetLogPath(), Device: request.GetDevice(), Self: request.GetSelf(),
		NetNS: request.GetNetns(), MntNS: request.GetMntns(), PidNS: request.GetPidns(), CgroupNS: request.GetCgroupns(),
		StartTime: request.GetStartTime(), Pods: request.GetPods(),
		NamespaceLabels: request.GetNamespaceLabels(), NodeLabels: request.GetNodeLabels(),
	}
	if at := request.GetAt(); at != nil {
		if err := at.CheckValid(); err != nil {
			f.Add("at", err)
		} else if l.At = at.AsTime(); !lookup.HasPassed(l.At, time.Now()) {
			f.Add("at", fmt.Errorf("%s is not a time that has passed", l.At.Format(time.RFC3339Nano)))
		}
	}
	if wait := request.GetWait(); wait != nil {
		if err := wait.CheckValid(); err != nil {
			f.Add("wait", err)
		} else {
			l.Wait = wait.AsDuration()
		}
	}
	f.checkLookup(l)
	return l, f.Err()
}

func (f *Faults) checkLookup(l *lookup.Query) {
	for _, fault := range l.Validate() {
		f.Add(fault.Name, fault.Err)
	}
}
