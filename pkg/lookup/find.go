package lookup

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// finding is the answer that is known now, and what can make it better.
type finding struct {
	answer *v1alpha1.Lookup
	scope  *view.Scope
	// ids are awaited in the runtime and keys in the sources, until the given time. They are empty if the answer is
	// complete.
	ids   []string
	keys  []any
	until time.Time
	// added has the UIDs of the pods of an answer that can have many, and to which a pod can come twice; otherwise nil.
	added map[types.UID]bool
}

// improves reports whether a better answer can come.
func (f *finding) improves(now time.Time) bool {
	return len(f.ids)+len(f.keys) > 0 && now.Before(f.until)
}

// find returns what is known now.
func (l *Lookup) find(q *Query, t *target) *finding {
	f := &finding{answer: new(v1alpha1.Lookup), scope: t.scope, until: t.until}
	switch {
	case t.ip.IsValid():
		l.findIP(q, t.ip, f)
	case t.log != nil:
		l.findLog(q, t.log, f)
	case t.uid != "":
		l.findUID(q, t.uid, "", f)
	case t.device != "":
		l.findDevice(q, t.device, f)
	case t.members != nil, t.host != "":
		l.findMembers(q, t, f)
	default:
		l.findContainer(q, t.containers, f)
	}
	return f
}

// maxEndedOfIP is the number of pods that ended in an answer for an IP. Thousands of pods can have had the IP of the host.
const maxEndedOfIP = 64

func (l *Lookup) findIP(q *Query, ip netip.Addr, f *finding) {
	f.added = make(map[types.UID]bool)
	ended := 0
	l.pods.read(f.answer, func() {
		l.pods.ofIP(ip, q.At, func(versions []version) bool {
			n := len(f.answer.Pods)
			if l.add(q, versions, f); len(f.answer.Pods) > n {
				found := &f.answer.Pods[n]
				found.Secondary = isSecondary(versions, ip)
				if found.Ended != nil {
					ended++
				}
			}
			return ended < maxEndedOfIP
		})
	})
	slices.SortStableFunc(f.answer.Pods, func(a, b v1alpha1.LookupPod) int { return cmp.Compare(btoi(a.Secondary), btoi(b.Secondary)) })
	if len(f.answer.Pods) == 0 && q.At.IsZero() {
		f.keys = []any{ip}
	}
}

// findUID finds the pod with a UID. name is its name; empty if it is not known.
func (l *Lookup) findUID(q *Query, uid types.UID, name string, f *finding) {
	known := l.findPod(q, uid, name, f)
	if len(f.answer.Pods) > 0 {
		return
	}
	f.keys = []any{uid}
	if l.runtime == nil {
		return
	}
	switch recorded, ok := l.runtime.FindPod(uid); {
	case known, ok && !f.seesOrphan(recorded):
		f.ids = []string{hiddenID + string(uid)}
	case ok:
		l.orphan(q, recorded, f)
	default:
		f.ids = []string{string(uid)}
	}
}

// hiddenID makes an ID that the runtime never has. It replaces the ID of a hidden container or pod, so that the wait is the
// same as for one that does not exist.
const hiddenID = "hidden:"

// seesOrphan reports whether the client sees a pod that no source has.
func (f *finding) seesOrphan(recorded pleg.Found) bool {
	return f.scope.Grant().AtLeast("", recorded.Namespace).Level() != access.None
}

// findContainer finds the outermost of the containers that the runtime has, or only its pod. The inner ones do not count: a
// container that may write below its own cgroup can give a cgroup there any name.
func (l *Lookup) findContainer(q *Query, containers []CgroupContainer, f *finding) {
	known := len(containers) // the containers from here on are inside a pod that is known
	for i, c := range containers {
		if l.runtime != nil && c.ID != "" {
			recorded, ok := l.runtime.FindContainer(c.ID)
			ok = ok && (c.PodUID == "" || c.PodUID == recorded.UID)
			switch {
			case ok && l.answerContainer(q, &recorded, f):
				return
			case ok: // those inside it are not of the runtime
				f.ids, known = append(f.ids, hiddenID+c.ID), i+1
			default:
				f.ids = append(f.ids, c.ID)
			}
			if ok {
				break
			}
		}
		if c.PodUID != "" && l.knows(c.PodUID) {
			known = i + 1
			break
		}
	}
	for _, c := range containers[:known] {
		last, uids := l.pods.lastState(c)
		for _, uid := range uids {
			if l.findPod(q, uid, "", f); len(f.answer.Pods) == 0 {
				f.keys = append(f.keys, uid)
				continue
			}
			if last != nil {
				f.ids = nil // nothing better is to come of what has ended
			}
			f.answer.Pods[0].Container = last
			if last == nil && c.ID != "" {
				f.answer.Pods[0].Container = &v1alpha1.LookupContainer{ID: c.ID}
			}
			return
		}
	}
}

// answerContainer answers with a container of the runtime. It reports false if the container is hidden.
func (l *Lookup) answerContainer(q *Query, recorded *pleg.Found, f *finding) bool {
	if known := l.findPod(q, recorded.UID, "", f); len(f.answer.Pods) == 0 && (known || !f.seesOrphan(*recorded)) {
		return false
	}
	f.ids = nil // the others are not of the runtime
	if len(f.answer.Pods) == 0 {
		f.keys = []any{recorded.UID}
		l.orphan(q, *recorded, f)
	}
	f.answer.Pods[0].Container = container(recorded)
	return true
}

// knows reports whether a source or the runtime has a pod with a UID.
func (l *Lookup) knows(uid types.UID) bool {
	if l.runtime != nil {
		if _, ok := l.runtime.FindPod(uid); ok {
			return true
		}
	}
	return l.pods.has(uid)
}

// findPod adds the pod of the sources with a UID, unless it is hidden. It reports whether there is such a pod. name is its name;
// empty for that in the runtime.
func (l *Lookup) findPod(q *Query, uid types.UID, name string, f *finding) (known bool) {
	if l.runtime != nil && name == "" {
		if recorded, ok := l.runtime.FindPod(uid); ok && recorded.Name != "" {
			name = recorded.Namespace + "/" + recorded.Name
		}
	}
	l.pods.read(f.answer, func() {
		versions := l.pods.ofUID(uid, name)
		known = versions != nil
		l.add(q, versions, f)
	})
	return known
}

// wait waits until the answer is complete, or can't improve.
func (l *Lookup) wait(ctx context.Context, q *Query, t *target, f *finding) (*finding, error) {
	timer := time.NewTimer(time.Until(f.until))
	defer timer.Stop()
	for {
		var recorded, delivered <-chan struct{}
		leave := func() {}
		if len(f.keys) > 0 {
			ch, stop := l.pods.await(f.keys)
			delivered, leave = ch, stop
		}
		stop := func() {}
		if len(f.ids) > 0 {
			recorded, stop = l.runtime.Await(f.ids...)
		}
		f = l.find(q, t) // it may have become known in the meantime
		var err error
		if f.improves(time.Now()) {
			timer.Reset(time.Until(f.until))
			select {
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-recorded:
			case <-delivered:
			case <-timer.C:
			}
			f = l.find(q, t)
		}
		leave()
		stop()
		if err != nil || !f.improves(time.Now()) {
			return f, err
		}
	}
}
