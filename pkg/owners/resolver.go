// Package owners finds the owners of the pods of the node, such as the ReplicaSet and the Deployment of a pod:
//
//	r := owners.New(owners.Options{Journal: j, Client: client})
//	go r.Run(ctx)
//	chain := r.Of(pod) // replicaset/checkout-7d9f, deployment/checkout
//
// The controller of a pod is in its owner references. What is above it, and the labels, take one get of metadata for each owner,
// which all its pods share. There is no watch and no list: a change of an owner is seen when it is read again, after 30 to 45 minutes.
// Nobody waits for these requests. A change of the owner references of a pod is seen at once, see [config.PodConfig.FollowOwners].
//
// # Who can name an owner
//
// Everybody who may create pods can write any owner reference into them. So an owner is known by the whole reference and the
// namespace of the pod, and an object with another UID than in the reference is not the owner.
package owners

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

const (
	// requestsPerSecond and burst limit the requests: a node has a few hundred pods, and far fewer owners.
	requestsPerSecond = 5
	burst             = 20
	// settle is how long changes of the journal are collected.
	settle = 100 * time.Millisecond
)

// Client reads from the apiserver. The errors are those of the apiserver, see k8s.io/apimachinery/pkg/api/errors.
type Client interface {
	// Get returns the metadata of the object at a path.
	Get(ctx context.Context, path string) (*metav1.PartialObjectMetadata, error)
	// Resources returns the resources at a path, which is that of a version of a group.
	Resources(ctx context.Context, path string) (*metav1.APIResourceList, error)
}

// Options configures a Resolver.
type Options struct {
	Journal *journal.Journal
	Client  Client
	// Node returns the Node of the apiserver; nil if there is none.
	Node func() *v1.Node
	// Retention is how long owners are kept that no present pod has, for lookups of pods that ended, and Most how many of them at
	// most.
	Retention time.Duration
	Most      int
	// File is the file that keeps the owners across restarts; empty for none.
	File string
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Resolver knows the owners of the pods.
type Resolver struct {
	opts     Options
	limiter  *rate.Limiter
	requests *prometheus.CounterVec
	// unsaved is true if the file, which was last written at saved, does not have what is known. What is about the file belongs to
	// the goroutine of Run.
	unsaved, saveFailed bool
	saved               time.Time

	// node is the last one that Options.Node returned. The journal calls Of while it is locked, and Node can call the journal.
	node atomic.Pointer[v1.Node]

	// mu guards the fields below. Only the goroutine of Run writes them.
	mu     sync.Mutex
	owners map[ref]*owner
	// looks is the number of looks at the pods.
	looks int64
	// kinds has the kind of each owner, in each namespace.
	kinds map[kindRef]*kind
	// failing is why the last request failed that the apiserver did not answer; empty once it has answered for all owners.
	failing string
}

// New returns a Resolver. Before Run, it only knows what the pods have.
func New(opts Options) *Resolver {
	return &Resolver{
		opts: opts, limiter: rate.NewLimiter(requestsPerSecond, burst), requests: newRequests(opts.Registerer),
		kinds: make(map[kindRef]*kind), owners: make(map[ref]*owner),
	}
}

// Run reads owners until the context is done, and returns the cause of the context.
func (r *Resolver) Run(ctx context.Context) error {
	r.load(ctx)
	r.node.Store(r.opts.Node())
	r.opts.Journal.SetOwners(r.Of)
	defer r.save(ctx)
	for {
		state := r.opts.Journal.State()
		r.look(state.Pods, time.Now())
		r.node.Store(r.opts.Node())
		r.opts.Journal.RecordOwners()
		o, due := r.next(time.Now())
		if o != nil {
			r.ask(ctx, o)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		if err := r.wait(ctx, state.Revision, r.saveDue(ctx, due)); err != nil {
			return err
		}
	}
}

// look adds the owners of the pods, and removes those that were not used for too long, or that were not read in time.
func (r *Resolver) look(pods []*journal.Pod, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks++
	for _, p := range pods {
		if p.Source == config.ApiserverSource {
			r.use(controllerOf(p.Object, p.Object.Namespace))
		}
	}
	var unused []*owner
	for key, o := range r.owners {
		if o.look == r.looks-1 { // a present pod had it until now
			o.used = now
		}
		switch {
		case r.present(o):
		case !o.known, now.Sub(o.used) > r.opts.Retention:
			delete(r.owners, key)
			r.unsaved = r.unsaved || o.known
		default:
			unused = append(unused, o)
		}
	}
	if n := len(unused) - r.opts.Most; n > 0 {
		slices.SortFunc(unused, func(a, b *owner) int { return a.used.Compare(b.used) })
		for _, o := range unused[:n] {
			delete(r.owners, o.ref)
		}
		r.unsaved = true
	}
	used := make(map[kindRef]bool, len(r.kinds))
	for _, o := range r.owners {
		used[o.kindRef] = true
		if r.kinds[o.kindRef] == nil {
			r.kinds[o.kindRef] = newKind(o.kindRef)
		}
	}
	if len(r.kinds) > maxKinds {
		maps.DeleteFunc(r.kinds, func(of kindRef, _ *kind) bool { return !used[of] })
	}
}

// present reports whether a present pod has an owner.
func (r *Resolver) present(o *owner) bool { return o.look == r.looks }

// use marks an owner and those above it as used.
func (r *Resolver) use(next *ref) {
	for range maxSteps {
		if next == nil || next.isNode() {
			return
		}
		o := r.owners[*next]
		if o == nil {
			o = &owner{ref: *next}
			r.owners[*next] = o
		}
		if r.present(o) {
			return
		}
		o.look, next = r.looks, o.Up
	}
}

// next returns the owner to ask for: one that is not known, or that was not asked for the longest. If there is none, it returns when
// one is due; zero for never.
func (r *Resolver) next(now time.Time) (first *owner, due time.Time) {
	for _, o := range r.owners {
		if !r.present(o) {
			continue
		}
		at := o.backoff.Next
		if k := r.kinds[o.kindRef].backoff.Next; k.After(at) {
			at = k
		}
		switch {
		case !at.After(now):
			if first == nil || o.before(first) {
				first = o
			}
		case due.IsZero() || at.Before(due):
			due = at
		}
	}
	return first, due
}

// wait returns when the journal is past the revision, or at the time due; zero for no time.
func (r *Resolver) wait(ctx context.Context, revision int64, due time.Time) error {
	var timer <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		timer = t.C
	}
	if read, err := r.opts.Journal.After(revision, nil, 1); err == nil && len(read.Sets) == 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer:
			return nil
		case <-read.Changed:
		}
	}
	return await.For(ctx, settle)
}

// maxNotes is the maximum number of notes in the status.
const maxNotes = 10

// Status returns what is known about the owners of the present pods.
func (r *Resolver) Status() *v1alpha1.OwnersStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := new(v1alpha1.OwnersStatus)
	notes := make(map[string]bool)
	for _, o := range r.owners {
		switch {
		case !r.present(o):
		case o.known:
			s.Known++
		default:
			s.Waiting++
			s.LastError = r.failing
			notes[o.problem], notes[r.kinds[o.kindRef].problem] = true, true
		}
	}
	delete(notes, "")
	s.Notes = slices.Sorted(maps.Keys(notes))
	if n := len(s.Notes) - maxNotes; n > 0 {
		s.Notes, s.NotesOmitted = s.Notes[:maxNotes], n
	}
	return s
}

// The results of requests, in the metric.
const (
	resultOK        = "ok"
	resultForbidden = "forbidden"
	resultNotFound  = "not_found"
	resultError     = "error"
)

func newRequests(reg prometheus.Registerer) *prometheus.CounterVec {
	return metric.In(reg, "owners").CounterVec("requests_total",
		"Number of times that the apiserver was asked for the owner of a pod, by result: ok, forbidden, not_found or error.",
		"result", resultOK, resultForbidden, resultNotFound, resultError)
}
