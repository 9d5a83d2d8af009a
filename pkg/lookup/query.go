package lookup

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// MaxWait is the maximum wait of a query.
const MaxWait = time.Minute

// Query is what a client asks. Exactly one of the fields before StartTime must be set, which Validate checks.
type Query struct {
	// ContainerID is the ID of a container or sandbox, also with the name of the runtime before it: containerd://ID.
	ContainerID string
	PodUID      types.UID
	PodIP       string
	// PID is a process, in the PID namespace of the daemon.
	PID int64
	// Cgroup is a path below the root of cgroups, or a line of /proc/PID/cgroup.
	Cgroup string
	// CgroupID is the ID of a cgroup of version 2: the inode of its directory.
	CgroupID uint64
	// NetNS, MntNS, PidNS and CgroupNS are the inodes of namespaces, as in /proc/PID/ns.
	NetNS, MntNS, PidNS, CgroupNS uint64
	// LogPath is the path of the log of a container, or of a link to it.
	LogPath string
	// Device is a device, as devices.Has takes it.
	Device string
	// Self selects the client. The server sets Client to its process, and Connected to when it had connected: a process that
	// started later is another one.
	Self      bool
	Client    int32
	Connected time.Time

	// StartTime is the start time of the process, in clock ticks after boot: field 22 of /proc/PID/stat. A process that has
	// ended is found if it was the first one of a container. 0 matches any.
	StartTime uint64
	// Wait is how long to wait for an answer, at most.
	Wait time.Duration
	// Pods adds the whole pods to the answer.
	Pods bool
	// NamespaceLabels and NodeLabels add the labels and annotations of the pods' namespaces and of the node to the answer,
	// which the server does.
	NamespaceLabels, NodeLabels bool
	// At selects the pods that had the IP, or the process that had the PID, at that time; zero for now.
	At time.Time
}

// containerID matches the IDs of containers.
//
// containerd: pkg/identifiers; the limit is ours.
var containerID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// scheme matches the name of the runtime in the ID of a container status.
var scheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://`)

const (
	maxUID  = 253
	maxPath = 4096 // PATH_MAX
	// maxQuoted is how much of a text an error quotes, in bytes.
	maxQuoted = 100
)

// Fault is an invalid field of a query.
type Fault struct {
	// Name is the field: one of those in targets, startTime, at or wait. It is empty if none of the targets is set.
	Name string
	Err  error
}

// targets are the fields of which exactly one must be set.
const targets = "containerID, podUID, podIP, pid, cgroup, cgroupID, netns, mntns, pidns, cgroupns, logPath, device and self"

// valid accepts a target that has no form.
func valid() error { return nil }

// namespace returns the namespace that the query selects.
func (q *Query) namespace() namespace {
	for k, inode := range [...]uint64{q.NetNS, q.MntNS, q.PidNS, q.CgroupNS} {
		if inode != 0 {
			return namespace{kind(k), inode}
		}
	}
	return namespace{}
}

// Validate returns all faults of the query.
func (q *Query) Validate() []Fault {
	var faults []Fault
	fail := func(name string, err error) {
		if err != nil {
			faults = append(faults, Fault{name, err})
		}
	}
	target := ""
	for _, t := range []struct {
		name  string
		given bool
		check func() error
	}{
		{"containerID", q.ContainerID != "", q.checkContainerID},
		{"podUID", q.PodUID != "", q.checkPodUID},
		{"podIP", q.PodIP != "", q.checkPodIP},
		{"pid", q.PID != 0, q.checkPID},
		{"cgroup", q.Cgroup != "", q.checkCgroup},
		{"cgroupID", q.CgroupID != 0, valid},
		{"netns", q.NetNS != 0, valid},
		{"mntns", q.MntNS != 0, valid},
		{"pidns", q.PidNS != 0, valid},
		{"cgroupns", q.CgroupNS != 0, valid},
		{"logPath", q.LogPath != "", q.checkLogPath},
		{"device", q.Device != "", q.checkDevice},
		{"self", q.Self, valid},
	} {
		if !t.given {
			continue
		}
		if target != "" {
			fail(t.name, fmt.Errorf("%s is given too: expected only one of them", target))
		}
		target = t.name
		fail(t.name, t.check())
	}
	if target == "" {
		fail("", errors.New("expected one of "+targets))
	}
	if q.StartTime != 0 && target != "pid" {
		fail("startTime", errors.New("requires pid"))
	}
	if !q.At.IsZero() && target != "podIP" && target != "pid" {
		fail("at", errors.New("requires podIP or pid"))
	}
	if q.Wait < 0 || q.Wait > MaxWait {
		fail("wait", fmt.Errorf("%v is not a wait: expected 0s to %v", q.Wait, MaxWait))
	}
	return faults
}

func (q *Query) checkContainerID() error {
	if !containerID.MatchString(bare(q.ContainerID)) {
		return fmt.Errorf("%q is not a container ID: expected an ID such as 3f5a…, or containerd://3f5a…", printable.Cut(q.ContainerID, maxQuoted))
	}
	return nil
}

func (q *Query) checkPodUID() error {
	if len(q.PodUID) > maxUID {
		return fmt.Errorf("%q is not a UID: expected at most %d characters", printable.Cut(string(q.PodUID), maxQuoted), maxUID)
	}
	return nil
}

func (q *Query) checkPodIP() error {
	if _, ok := parseIP(q.PodIP); !ok {
		return fmt.Errorf("%q is not an IP address: expected one such as 10.0.0.1 or fd00::1", printable.Cut(q.PodIP, maxQuoted))
	}
	return nil
}

func (q *Query) checkPID() error {
	if q.PID < 1 || q.PID > math.MaxInt32 {
		return fmt.Errorf("%d is not a PID: expected 1 to %d", q.PID, math.MaxInt32)
	}
	return nil
}

func (q *Query) checkCgroup() error {
	if len(q.Cgroup) > maxPath {
		return fmt.Errorf("expected at most %d characters, got %d", maxPath, len(q.Cgroup))
	}
	return nil
}

func (q *Query) checkDevice() error {
	if _, id, _ := strings.Cut(q.Device, ":"); id == "" || len(q.Device) > maxPath {
		return fmt.Errorf("%q is not a device: expected RESOURCE:ID, such as nvidia.com/gpu:GPU-3f5a, or DRIVER:POOL/DEVICE for a device of a claim",
			printable.Cut(q.Device, maxQuoted))
	}
	return nil
}

// ParseAt parses Query.At: a time in the format of RFC 3339, or a period before now, as in -10m. It is zero if the text is empty.
func ParseAt(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if period, err := time.ParseDuration(s); err == nil && period < 0 {
		return now.Add(period), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil || !HasPassed(at, now) {
		return time.Time{}, fmt.Errorf("%q is not a time that has passed: expected for example -10m or 2026-01-02T15:04:05Z", printable.Cut(s, maxQuoted))
	}
	return at, nil
}

// HasPassed reports whether Query.At can be a time that was given.
func HasPassed(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// bare returns the ID of a container without the name of the runtime.
func bare(id string) string { return id[len(scheme.FindString(id)):] }

// parseIP parses an IP address. It returns an IPv4 address for one that is written as IPv6.
func parseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	return ip.Unmap(), err == nil && ip.Zone() == ""
}
