// Package lookup finds the pod and the container of a container ID, a pod UID, a pod IP, a process, a cgroup, a namespace or a log:
//
//	l := lookup.New(lookup.Options{Journal: j, Runtime: generator})
//	go l.Run(ctx)
//	answer, err := l.Find(ctx, nil, &lookup.Query{PID: 4711, Wait: time.Second})
//
// # Where answers come from
//
// A [Lookup] joins two sets of records: the containers of the runtime, from pkg/pleg, and the pods of the sources, from the
// journal. If several sources have a pod, the answer is the pod that the Kubernetes API shows. If only the mirror pod of a
// static pod is known, the containers of the static pod belong to the mirror pod. A pod that only the runtime has is
// answered without a source.
//
// A process belongs to the container that its cgroup names. See [ParseCgroup]. The namespaces and the first processes of
// containers are read from procfs, but only when a query needs them. What was read is checked before it is the answer: the kernel
// reuses PIDs and the inodes of namespaces.
//
// # Waiting
//
// A query with a wait is answered as soon as the container is recorded and a source has its pod. If only a part is known at
// the end of the wait, the answer has that part. The wait ends early if the runtime has had the pod for longer than the
// wait: then no source is about to deliver it. Waiting queries do not poll. The records wake them.
//
// # What ended
//
// Removed containers and pods are found for one minute. The answer has the time at which they ended.
package lookup

import (
	"context"
	"iter"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// Runtime has the records of the container runtime. A pleg.Generator implements it.
type Runtime interface {
	FindContainer(id string) (pleg.Found, bool)
	FindPod(uid types.UID) (pleg.Found, bool)
	FindRemoved(uid types.UID, name string, attempt uint32) (pleg.Found, bool)
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
	// Owners returns the owners of a pod, in the form that the client sees; nil if none are known.
	Owners func(*journal.Pod) []v1alpha1.Owner
	// Devices returns what the kubelet assigned to containers; nil if that is off.
	Devices func() *devices.Table
	// Proc is the directory of procfs; empty for /proc.
	Proc string
	// Retention is how long pods that ended are known, and MaxEnded how many of them at most.
	Retention time.Duration
	MaxEnded  int
	// Past returns the pods that were removed since a time, with the time; nil if there is no log of them. WholePods returns the whole
	// pods whose removals were observed at some times, as far as the log has them.
	Past      func(since time.Time) iter.Seq2[*journal.Pod, time.Time]
	WholePods func(ctx context.Context, at map[types.UID]time.Time) map[types.UID]*journal.Pod
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
	// processes has the processes in containers, firsts the first ones also after their end, and cgroups finds cgroups by ID.
	processes *paced[*processes]
	firsts    firsts
	cgroups   *cgroupTree
	by        func(ctx context.Context, uid types.UID) (map[string]string, error)
	owners    func(*journal.Pod) []v1alpha1.Owner
	devices   func() *devices.Table
	// past reads the log, and loaded is closed when it has.
	past      func(since time.Time) iter.Seq2[*journal.Pod, time.Time]
	loaded    chan struct{}
	wholePods func(ctx context.Context, at map[types.UID]time.Time) map[types.UID]*journal.Pod
}

// New returns a Lookup. Find answers at once before Run, and no pod of a source ends a wait.
func New(opts Options) *Lookup {
	if opts.Proc == "" {
		opts.Proc = "/proc"
	}
	if opts.LogLinks == "" {
		opts.LogLinks = "/var/log/containers"
	}
	l := &Lookup{
		journal: opts.Journal, runtime: opts.Runtime, pods: newPods(opts.Journal, newEnded(opts.Retention, opts.MaxEnded)), proc: opts.Proc,
		logLinks: opts.LogLinks, by: opts.StatusBy, owners: opts.Owners, devices: opts.Devices, past: opts.Past, loaded: make(chan struct{}), wholePods: opts.WholePods,
		cgroups: newCgroupTree(opts.Proc),
	}
	l.pods.ended.owners = opts.Owners != nil
	l.processes = newPaced(l.readProcesses)
	return l
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
	asked := time.Now()
	t, err := l.target(ctx, q)
	if err != nil && ctx.Err() == nil && t.isAsHidden(scope, q, err) {
		err = nil
	}
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
		return nil, l.refuse(ctx, scope, q, asked, l.unknown(q, t, found))
	}
	if err := l.addHandles(ctx, found.answer); err != nil {
		return nil, err
	}
	if t.first.pid != 0 && len(found.answer.Pods) > 0 {
		if c := found.answer.Pods[0].Container; c != nil {
			c.PID, c.StartTime = t.first.pid, t.first.start
		}
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
	// device is a device; empty for another target.
	device string
	// containers are the containers that a cgroup names, the outermost first. The runtime has at most one of them.
	containers []CgroupContainer
	// first is the process that the query selects if it has ended: the first one of the container.
	first started
	// members are the containers that the cgroups of the processes in a namespace name.
	members [][]CgroupContainer
	// host is the kind of the namespace if it is the host's; otherwise empty. hostUnknown is true if it is not known which
	// network namespace is the host's: then it is that of the pods with hostNetwork.
	host        string
	hostUnknown bool
	// asked is the start of the wait, and until its end. Both are zero without a wait.
	asked, until time.Time
}
