// Package params parses the requests for updates, lists, the history and lookups, from queries of HTTP and
// messages of gRPC. Both protocols share one type and one set of rules for each request. An error names
// every invalid parameter, by its name in the protocol.
package params

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/lookup"
)

// ParseResync parses the query of /v1alpha1/resync, and returns the pod.
func ParseResync(raw string) (types.NamespacedName, error) {
	q, err := parseQuery(raw, "namespace", "name")
	if err != nil {
		return types.NamespacedName{}, err
	}
	return q.pod(q.values["namespace"], q.values["name"])
}

// Resync converts a request for a SYNC, and returns the pod.
func Resync(request *v1alpha1.ResyncRequest) (types.NamespacedName, error) {
	return (&Faults{fields: sameNames}).pod(request.GetNamespace(), request.GetName())
}

// pod checks the name of a pod.
func (f *Faults) pod(namespace, name string) (types.NamespacedName, error) {
	for _, p := range []struct{ parameter, value string }{{"namespace", namespace}, {"name", name}} {
		if p.value == "" {
			f.Add(p.parameter, errRequired)
		} else if problems := validation.IsDNS1123Subdomain(p.value); len(problems) > 0 {
			f.Add(p.parameter, fmt.Errorf("%q: %s", p.value, printable.Rule(problems[0])))
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, f.Err()
}

// sameNames is for messages whose fields have the names of HTTP.
var sameNames = map[string]string{}

var errRequired = errors.New("required")

// ReleaseQuery is a request to merge the held set of a source.
type ReleaseQuery struct {
	Source string
	// Most is the number of pods that the set may remove; nil for any.
	Most *int
}

// ParseRelease parses the query of /v1alpha1/release.
func ParseRelease(raw string) (*ReleaseQuery, error) {
	q, err := parseQuery(raw, "source", "removes")
	if err != nil {
		return nil, err
	}
	r := new(ReleaseQuery)
	if text, ok := q.values["removes"]; ok {
		most := int64(-1)
		if n, err := strconv.ParseUint(text, 10, 31); err == nil { // neither +0 nor -0
			most = int64(n)
		}
		r.setMost(&q.Faults, most, strconv.Quote(text))
	}
	r.setSource(&q.Faults, q.values["source"])
	return r, q.Err()
}

// Release converts a request to merge the held set of a source.
func Release(request *v1alpha1.ReleaseRequest) (*ReleaseQuery, error) {
	f, r := &Faults{fields: sameNames}, new(ReleaseQuery)
	if request.Removes != nil {
		r.setMost(f, request.GetRemoves(), request.GetRemoves())
	}
	r.setSource(f, request.GetSource())
	return r, f.Err()
}

func (r *ReleaseQuery) setMost(f *Faults, n int64, given any) {
	if n < 0 || n > math.MaxInt32 {
		f.Add("removes", fmt.Errorf("expected a number of pods, 0 to %d, got %v", math.MaxInt32, given))
	}
	r.Most = new(int(n))
}

func (r *ReleaseQuery) setSource(f *Faults, name string) {
	source, err := config.ParseSource(name)
	if err == nil && source == "" { // all sources
		err = errRequired
	}
	f.Add("source", err)
	r.Source = source
}

// query has the parameters of a query, and their faults.
type query struct {
	Faults
	values map[string]string
}

// bool parses a boolean parameter. It returns fallback if the parameter is empty.
func (q *query) bool(name string, fallback bool) bool {
	s := q.values[name]
	if s == "" {
		return fallback
	}
	value, err := strconv.ParseBool(s)
	if err != nil {
		q.Add(name, fmt.Errorf("expected true or false, got %q", s))
	}
	return value
}

// parseQuery returns the parameters of a query. It returns an error if one is unknown or is given more
// than once.
func parseQuery(raw string, known ...string) (*query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("parsing the query: %w", err)
	}
	single := make(map[string]string, len(values))
	for name, all := range values {
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("unknown parameter %q: expected one of %s", name, strings.Join(known, ", "))
		case len(all) > 1:
			return nil, fmt.Errorf("parameter %q: given %d times, expected once", name, len(all))
		}
		single[name] = all[0]
	}
	return &query{values: single}, nil
}

// Faults are the faults of a request.
type Faults struct {
	// fields maps parameters of HTTP to the fields of the message of gRPC whose names differ. It is nil
	// for a query.
	fields map[string]string
	errs   []error
}

// Add adds a fault. name is the name of the parameter in HTTP; it is empty for a fault of the whole
// request. If err is nil, Add does nothing.
func (f *Faults) Add(name string, err error) {
	if err == nil {
		return
	}
	field, ok := f.fields[name]
	switch {
	case f.fields == nil && name != "":
		err = fmt.Errorf("parameter %q: %w", name, err)
	case ok:
		err = fmt.Errorf("%s: %w", field, err)
	case name != "":
		err = fmt.Errorf("%s: %w", name, err)
	}
	f.errs = append(f.errs, err)
}

// Err returns all faults; nil for none.
func (f *Faults) Err() error { return errors.Join(f.errs...) }

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
