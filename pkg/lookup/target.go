package lookup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// target returns what the query selects.
func (l *Lookup) target(ctx context.Context, q *Query) (*target, error) {
	t := &target{what: q.what()}
	if q.Wait > 0 {
		t.asked = time.Now()
		t.until = t.asked.Add(q.Wait)
	}
	switch {
	case q.PodIP != "":
		t.ip, _ = parseIP(q.PodIP)
	case q.PodUID != "":
		t.uid = q.PodUID
	case q.ContainerID != "":
		t.containers = []CgroupContainer{{ID: bare(q.ContainerID)}}
		if l.runtime == nil {
			return nil, noRuntime(t.what)
		}
	case q.Cgroup != "":
		if t.containers = ParseCgroup(q.Cgroup); len(t.containers) == 0 {
			return nil, notFound(t.what, "it belongs to no container")
		}
	case q.LogPath != "":
		return t, l.withLog(q.LogPath, t)
	case q.Device != "":
		t.device = q.Device
		return t, l.checkDevices(t.what)
	case q.CgroupID != 0:
		return t, l.withCgroupID(ctx, q.CgroupID, t)
	case q.Self, q.PID != 0:
		return t, l.process(q, t)
	default:
		return t, l.inNamespace(ctx, q.namespace(), t)
	}
	return t, nil
}

// what names the target in errors.
func (q *Query) what() string {
	switch {
	case q.PodIP != "":
		ip, _ := parseIP(q.PodIP)
		return "pod IP " + ip.String()
	case q.PodUID != "":
		return "pod UID " + string(q.PodUID)
	case q.ContainerID != "":
		return "container " + bare(q.ContainerID)
	case q.Cgroup != "":
		return "cgroup " + q.Cgroup
	case q.LogPath != "":
		return "log " + q.LogPath
	case q.Device != "":
		return "device " + q.Device
	case q.Self:
		return fmt.Sprintf("the client, process %d", q.Client)
	case q.CgroupID != 0:
		return fmt.Sprintf("cgroup ID %d", q.CgroupID)
	case q.PID == 0:
		ns := q.namespace()
		return fmt.Sprintf("%v %d", ns.kind, ns.inode)
	}
	return fmt.Sprintf("process %d", q.PID)
}

// unknown returns the error for a target that is not known.
func (l *Lookup) unknown(q *Query, t *target, f *finding) error {
	switch {
	case len(t.containers) > 0 && l.runtime == nil:
		return noRuntime(t.what)
	case len(t.containers) > 0, (t.uid != "" || t.device != "") && l.runtime != nil:
		var asked time.Time
		if len(f.ids) > 0 {
			asked = t.asked // the wait has demanded a list
		}
		if err := l.runtime.Behind(asked); err != nil {
			return unavailable(t.what, err)
		}
	}
	if err := l.journal.CheckKnown(); err != nil {
		return unavailable(t.what, fmt.Errorf("the pods are not known yet: %w", err))
	}
	if l.isLoading() {
		return unavailable(t.what, errors.New("the pods that ended before the start are not known yet"))
	}
	switch {
	case t.ip.IsValid() && !q.At.IsZero():
		return notFound(t.what, "no pod had it then")
	case t.ip.IsValid():
		return notFound(t.what, "no pod has it")
	case t.log != nil:
		return notFound(t.what, unknownLog(t.log))
	case t.device != "":
		return notFound(t.what, "the kubelet has assigned it to no container of a present pod")
	case t.uid != "" && l.runtime == nil:
		return notFound(t.what, "no source has it")
	case t.uid != "":
		return notFound(t.what, "no source has it, and the container runtime does not have it")
	case t.what == "container "+t.containers[0].ID:
		return notFound(t.what, "the container runtime does not have it")
	}
	c := t.containers[0]
	if c.ID == "" {
		return notFound(t.what, fmt.Sprintf("no source has its pod, which has UID %s", c.PodUID))
	}
	return notFound(t.what, fmt.Sprintf("the container runtime does not have its container %s", c.ID))
}

// hidesPods reports whether there can be pods that a client does not see.
func hidesPods(scope *view.Scope) bool { return scope.Grant().AtLeast("", "").Level() == access.None }

// isAsHidden replaces a target that does not exist by one that is hidden, if pods can be hidden from the client. So both have the same
// answer after the same wait. It reports false if the error is to be the answer.
func (t *target) isAsHidden(scope *view.Scope, q *Query, err error) bool {
	isNamespace := q.namespace().inode != 0 // its other errors tell whether it exists too
	if t == nil || !hidesPods(scope) || !apierrors.IsNotFound(err) && !isNamespace {
		return false
	}
	if t.log = nil; q.LogPath != "" {
		t.uid = hiddenID
	} else {
		t.containers = []CgroupContainer{{ID: hiddenID, PodUID: hiddenID}}
	}
	return true
}

// refuse returns the error for a query that was asked at a time and has no answer. For a client from which pods can be hidden, it
// reads the processes again for a hidden namespace, as for one that does not exist.
func (l *Lookup) refuse(ctx context.Context, scope *view.Scope, q *Query, asked time.Time, err error) error {
	if q.namespace().inode == 0 || !hidesPods(scope) {
		return hide(scope, q, err)
	}
	all, failed := l.processes.since(ctx, asked, true)
	switch {
	case failed != nil:
		return failed
	case all.denied:
		return notReadable(q.what())
	}
	return hide(scope, q, err)
}

// hide replaces the reason why something is not found, because reasons name cgroups, containers and pods. A client that may
// see everything gets the reason.
func hide(scope *view.Scope, q *Query, err error) error {
	if reason := scope.Err(); reason != nil {
		return unavailable(q.what(), reason)
	}
	if scope.Grant() == nil || !apierrors.IsNotFound(err) {
		return err
	}
	return notFound(q.what(), "no pod that the access rules show has it")
}

func notFound(what, why string) error {
	return apistatus.New(http.StatusNotFound, fmt.Sprintf("looking up %s: %s", what, why))
}

// noRuntime answers a query that requires a container runtime. It is no answer to try again for.
func noRuntime(what string) error {
	return apistatus.New(http.StatusNotImplemented, fmt.Sprintf("looking up %s: there is no container runtime: name one with --container-runtime-endpoint", what))
}

func unavailable(what string, err error) error {
	return apistatus.New(http.StatusServiceUnavailable, fmt.Sprintf("looking up %s: %v", what, err))
}
