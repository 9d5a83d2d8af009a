package lookup

import (
	"cmp"
	"context"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// Runtime has the records of the container runtime. A pleg.Generator implements it.
type Runtime interface {
	FindContainer(id string) (pleg.Found, bool)
	FindPod(uid types.UID) (pleg.Found, bool)
	Pod(uid types.UID) (*pleg.Pod, bool)
	Await(ids ...string) (recorded <-chan struct{}, stop func())
	Behind(at time.Time) error
}

// Options configures a Lookup.
type Options struct {
	Journal *journal.Journal
	// Runtime is nil without a container runtime.
	Runtime Runtime
	// StatusBy returns who computed the status of the pods with a UID, by source; nil if that is not known.
	StatusBy func(ctx context.Context, uid types.UID) (map[string]string, error)
	// Proc is the directory of procfs; empty for /proc.
	Proc string
	// Retention is how long pods that ended are known, and MaxEnded how many of them at most.
	Retention time.Duration
	MaxEnded  int
	// Past returns the pods that were removed since a time, with the time; nil if there is no log of them. WholePod returns the whole
	// pod that was removed at a time; an error if the log does not have it.
	Past     func(since time.Time) iter.Seq2[*journal.Pod, time.Time]
	WholePod func(ctx context.Context, uid types.UID, at time.Time) (*journal.Pod, error)
	// LogLinks is the directory of the links to the logs of containers; empty for /var/log/containers.
	LogLinks string
}

// Lookup answers queries. It is safe for concurrent use.
type Lookup struct {
	journal *journal.Journal
	runtime Runtime
	pods    *pods
	proc    string
	// logLinks is the directory of the links to logs.
	logLinks string
	// processes has the processes in containers, and cgroups finds cgroups by ID.
	processes *paced[*processes]
	cgroups   *cgroupTree
	by        func(ctx context.Context, uid types.UID) (map[string]string, error)
	// past reads the log, and loaded is closed when it has.
	past     func(since time.Time) iter.Seq2[*journal.Pod, time.Time]
	loaded   chan struct{}
	wholePod func(ctx context.Context, uid types.UID, at time.Time) (*journal.Pod, error)
}

// New returns a Lookup. Find answers at once before Run, and no pod of a source ends a wait.
func New(opts Options) *Lookup {
	if opts.Proc == "" {
		opts.Proc = "/proc"
	}
	if opts.LogLinks == "" {
		opts.LogLinks = "/var/log/containers"
	}
	return &Lookup{
		journal: opts.Journal, runtime: opts.Runtime, pods: newPods(opts.Journal, newEnded(opts.Retention, opts.MaxEnded)), proc: opts.Proc,
		logLinks: opts.LogLinks, by: opts.StatusBy, past: opts.Past, loaded: make(chan struct{}), wholePod: opts.WholePod,
		processes: newPaced(func() *processes { return readProcesses(opts.Proc) }), cgroups: newCgroupTree(opts.Proc),
	}
}

// Run follows the journal until the context is done, and returns the cause of the context.
func (l *Lookup) Run(ctx context.Context) error {
	var loading sync.WaitGroup
	defer loading.Wait()
	loading.Go(func() { l.load(ctx) })
	for {
		changed := l.pods.sync()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-l.pods.expiry():
		}
	}
}

// Find answers a query that Validate accepts. Its errors have a status, see k8s.io/apimachinery/pkg/api/errors: NotFound, or
// ServiceUnavailable if the answer is not known yet, or NotImplemented if it requires a runtime and there is none. If the context
// is done while the query waits, the error is the cause of the context.
//
// The scope has the pods that the client may see; nil for all. The answer about a hidden pod is the same as about a pod that
// does not exist, and comes after the same wait.
func (l *Lookup) Find(ctx context.Context, scope *view.Scope, q *Query) (*v1alpha1.Lookup, error) {
	t, err := l.target(ctx, q)
	if err != nil {
		return nil, hide(scope, q, err)
	}
	t.scope = scope
	found := l.find(q, t)
	if q.Wait > 0 && found.improves(time.Now()) {
		if found, err = l.wait(ctx, q, t, found); err != nil {
			return nil, err
		}
	}
	if len(found.answer.Pods) == 0 && found.answer.Host == nil {
		return nil, hide(scope, q, l.unknown(q, t, found))
	}
	if err := l.addHandles(ctx, found.answer); err != nil {
		return nil, err
	}
	if err := l.addWhole(ctx, scope, q, found.answer); err != nil {
		return nil, err
	}
	return found.answer, l.addStatusBy(ctx, q, found.answer)
}

// addStatusBy adds to the answer for a UID who computed the status of the pods. The error is the cause of the context.
func (l *Lookup) addStatusBy(ctx context.Context, q *Query, answer *v1alpha1.Lookup) error {
	if l.by == nil || q.PodUID == "" {
		return nil
	}
	for i := range answer.Pods {
		p := &answer.Pods[i]
		if p.StatusBy != "" {
			continue
		}
		by, err := l.by(ctx, types.UID(p.UID))
		if err != nil {
			return err
		}
		p.StatusBy = by[p.Source]
	}
	return nil
}

// target is what a query selects: an IP, a pod, or a container.
type target struct {
	// what names the target in errors.
	what string
	// scope is the scope of the client; nil for everything.
	scope *view.Scope
	ip    netip.Addr
	uid   types.UID
	// log is the log of a container; nil for another target.
	log *logFile
	// containers are the containers that a cgroup names, the outermost first. The runtime has at most one of them.
	containers []CgroupContainer
	// members are the containers that the cgroups of the processes in a namespace name.
	members [][]CgroupContainer
	// host is the kind of the namespace if it is the host's; otherwise empty. hostUnknown is true if it is not known which
	// network namespace is the host's: then it is that of the pods with hostNetwork.
	host        string
	hostUnknown bool
	// asked is the start of the wait, and until its end. Both are zero without a wait.
	asked, until time.Time
}

// finding is the answer that is known now, and what can make it better.
type finding struct {
	answer *v1alpha1.Lookup
	scope  *view.Scope
	// ids are awaited in the runtime and keys in the sources, until the given time. They are empty if the answer is
	// complete.
	ids   []string
	keys  []any
	until time.Time
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
	case t.members != nil, t.host != "":
		l.findMembers(q, t, f)
	default:
		l.findContainer(q, t.containers, f)
	}
	return f
}

func (l *Lookup) findIP(q *Query, ip netip.Addr, f *finding) {
	l.pods.read(f.answer, func() {
		l.pods.ofIP(ip, q.At, func(versions []version) {
			n := len(f.answer.Pods)
			if l.add(q, versions, f); len(f.answer.Pods) > n {
				f.answer.Pods[n].Secondary = isSecondary(versions, ip)
			}
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
		f.orphan(q, recorded)
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
		last, uid := l.pods.lastState(c.ID)
		if c.PodUID != "" {
			uid = c.PodUID
		}
		if uid == "" {
			continue
		}
		if l.findPod(q, uid, "", f); len(f.answer.Pods) > 0 {
			if last != nil {
				f.ids = nil // nothing better is to come of what has ended
			}
			f.answer.Pods[0].Container = last
			if last == nil && c.ID != "" {
				f.answer.Pods[0].Container = &v1alpha1.LookupContainer{ID: c.ID}
			}
			return
		}
		f.keys = append(f.keys, uid)
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
		f.orphan(q, *recorded)
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

// byMirrorPod is LookupPod.StatusBy for a status that a kubelet wrote to the mirror pod.
const byMirrorPod = "mirrorPod"

// add adds the first version that the client sees, unless the answer has the pod. The client must see the last one, which is
// what it asks for.
func (l *Lookup) add(q *Query, versions []version, f *finding) {
	if n := len(versions); n == 0 || f.scope.See(versions[n-1].Pod) == nil {
		return
	}
	for _, v := range versions {
		p := f.scope.See(v.Pod)
		if p == nil {
			continue
		}
		if slices.ContainsFunc(f.answer.Pods, func(other v1alpha1.LookupPod) bool { return other.UID == string(p.Object.UID) }) {
			return
		}
		status, by := &p.Object.Status, ""
		if mirror := l.pods.mirror(v); mirror != nil {
			if mirror = f.scope.See(mirror); mirror != nil {
				status, by = &mirror.Object.Status, byMirrorPod
			}
		}
		found := sourcePod(q, p, status, v.ended)
		if q.PodUID != "" {
			found.StatusBy = by
		}
		f.answer.Pods = append(f.answer.Pods, found)
		return
	}
}

// orphan adds a pod that only the runtime has. If the runtime has had it for longer than the wait, no source is about to
// deliver it.
func (f *finding) orphan(q *Query, recorded pleg.Found) {
	p := v1alpha1.LookupPod{Namespace: recorded.Namespace, Name: recorded.Name, UID: string(recorded.UID)}
	if !recorded.Ended.IsZero() {
		p.Ended = &recorded.Ended
		f.keys = nil
	}
	if end := recorded.Since.Add(q.Wait); end.Before(f.until) {
		f.until = end
	}
	f.answer.Pods = append(f.answer.Pods, p)
}

// sourcePod returns a pod of a source as an answer shows it, with its status.
func sourcePod(q *Query, p *journal.Pod, status *v1.PodStatus, ended *time.Time) v1alpha1.LookupPod {
	o := p.Object
	found := v1alpha1.LookupPod{
		Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), Labels: o.Labels,
		Source: p.Source, Revision: p.Revision, Phase: string(status.Phase), HostNetwork: o.Spec.HostNetwork,
		Ended: ended,
	}
	for _, ip := range addresses(status) {
		found.PodIPs = append(found.PodIPs, ip.String())
	}
	if q.Pods && ended == nil { // otherwise addWhole adds it
		found.Pod = whole(o)
	}
	return found
}

// whole returns the pod with apiVersion and kind.
func whole(pod *v1.Pod) *v1.Pod {
	typed := *pod
	typed.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return &typed
}

func container(recorded *pleg.Found) *v1alpha1.LookupContainer {
	c := &recorded.Container
	found := &v1alpha1.LookupContainer{
		ID: c.ID, Name: c.Name, Sandbox: c.Sandbox, State: c.State.String(), ExitCode: c.ExitCode, Restarts: int(c.Attempt),
		SandboxID: c.SandboxID,
	}
	if !recorded.Started.IsZero() {
		found.Started = &recorded.Started
	}
	if !recorded.Ended.IsZero() {
		found.Ended = &recorded.Ended
	}
	return found
}
