// Package mirror keeps a mirror pod in the apiserver for each static pod of a node without a kubelet, as a kubelet does:
//
//	m := mirror.New(mirror.Options{Journal: j, Client: apiserver, Node: node})
//	err := m.Run(ctx)
//
// A [Manager] compares the pods in the journal: the static pods of the file and HTTP sources with the mirror pods of the
// apiserver source. It creates a mirror pod that is missing, replaces it if its static pod changed, and deletes it if its
// static pod is gone. It writes the status of the static pod to the mirror pod. One goroutine makes all requests, one at a
// time.
//
// What a Manager guarantees:
//
//   - It changes only mirror pods with the annotation [config.OwnMirrorAnnotationKey].
//   - It does nothing before the apiserver source is seen. It creates or replaces a mirror pod only if the source of its
//     static pod is seen. It deletes a mirror pod only if all sources are seen.
//   - Each request has the UID of the pod as its precondition.
//   - It creates no more mirror pods if a kubelet manages the node: another client creates or deletes mirror pods there, or
//     a kubelet writes their status.
package mirror

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

const (
	// requestsPerSecond and burst limit the requests.
	//
	// kubelet: kubeAPIQPS and kubeAPIBurst.
	requestsPerSecond = 50
	burst             = 100
	// settle is how long changes of the journal are collected before a pass.
	settle = 100 * time.Millisecond
	// unconfirmed is how long the Manager relies on a request before the apiserver source shows its effect.
	unconfirmed = time.Minute
)

// Client writes pods in the apiserver. The errors are those of the apiserver, see
// k8s.io/apimachinery/pkg/api/errors.
type Client interface {
	// Get returns a pod as the apiserver has it.
	Get(ctx context.Context, namespace, name string) (*v1.Pod, error)
	// Create creates a pod, and returns it as the apiserver has it.
	Create(ctx context.Context, pod *v1.Pod) (*v1.Pod, error)
	// Delete deletes a pod at once, if it still has the UID. It returns the finalizers for which the
	// apiserver keeps it.
	Delete(ctx context.Context, namespace, name string, uid types.UID) (finalizers []string, err error)
	// PatchStatus applies a JSON merge patch to the status of a pod, and returns the pod.
	PatchStatus(ctx context.Context, namespace, name string, patch []byte) (*v1.Pod, error)
}

// Options configures a Manager.
type Options struct {
	Journal *journal.Journal
	Client  Client
	// Node returns the Node of the apiserver; nil if there is none. The journal changes after each change of the Node.
	Node func() *v1.Node
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Manager keeps the mirror pods.
type Manager struct {
	journal *journal.Journal
	client  Client
	node    func() *v1.Node
	limiter *rate.Limiter
	metrics *metrics

	// Only the goroutine of Run uses the following fields.

	// entries has what the journal does not have about each name.
	entries map[types.NamespacedName]*entry
	// known has the mirror pods that matched their static pods in the last pass.
	known map[types.UID]knownMirror
	// removed has the pods that the apiserver removed since the last pass, up to this revision of the journal.
	revision int64
	removed  map[types.UID]bool
	// deletions has the recent requests to delete a mirror pod.
	deletions map[types.UID]*deletion
	guard     guard
	// outage is the wait while the apiserver does not answer. unanswered is the pod whose request was the last without an
	// answer.
	outage     await.Backoff
	unanswered types.NamespacedName

	// mu guards shown.
	mu    sync.Mutex
	shown v1alpha1.MirrorStatus
}

// entry is the state of the requests for one name.
type entry struct {
	backoff await.Backoff
	// problem is the error of the last request, and op its operation; empty if it succeeded.
	problem, op string
	since       time.Time
	// kept is the UID of a deleted mirror pod that the apiserver keeps because of its finalizers.
	kept types.UID
	// lost is when another client last deleted the mirror pod.
	lost time.Time
	// made is the mirror pod that was created. It is nil once the apiserver source has it.
	made   *v1.Pod
	madeAt time.Time
	// static and mirror are the pods that were compared last. written is the status that the mirror pod got at writtenAt.
	static, mirror *v1.Pod
	written        *v1.PodStatus
	writtenAt      time.Time
}

// knownMirror is a mirror pod that matched its static pod.
type knownMirror struct {
	name  types.NamespacedName
	hash  string
	owner types.UID
}

// deletion is a request to delete a mirror pod. done means that the apiserver no longer has the pod.
type deletion struct {
	at   time.Time
	done bool
}

// New returns a Manager. It does nothing before Run.
func New(opts Options) *Manager {
	return &Manager{
		journal: opts.Journal, client: opts.Client, node: opts.Node, limiter: rate.NewLimiter(requestsPerSecond, burst),
		metrics: newMetrics(opts.Registerer),
		entries: make(map[types.NamespacedName]*entry), known: make(map[types.UID]knownMirror),
		deletions: make(map[types.UID]*deletion), removed: make(map[types.UID]bool),
	}
}

// Run keeps the mirror pods until the context is done, and returns the cause of the context. It leaves the mirror pods in
// the apiserver.
func (m *Manager) Run(ctx context.Context) error {
	m.revision = m.journal.Revision()
	for {
		m.readRemoved()
		state := m.journal.State()
		next := m.pass(ctx, &state)
		clear(m.removed)
		if err := m.wait(ctx, state.Revision, next); err != nil {
			return err
		}
	}
}

// readRemoved reads which pods the apiserver removed. No state of the journal has a pod that came and went between two
// passes. If the journal no longer has the updates, the time unconfirmed ends the wait for such a pod.
func (m *Manager) readRemoved() {
	for {
		r, err := m.journal.After(m.revision, nil, 64)
		if err != nil {
			m.revision = m.journal.Revision()
			return
		}
		for _, set := range r.Sets {
			for _, u := range set.Updates {
				if u.Source != config.ApiserverSource || u.Op != config.REMOVE {
					continue
				}
				for _, p := range u.Pods {
					m.removed[p.Object.UID] = true
				}
			}
			m.revision = set.Revision
		}
		if r.Changed != nil {
			return
		}
	}
}

// wait returns when the journal is past the revision, or at the time next; zero for no time.
func (m *Manager) wait(ctx context.Context, revision int64, next time.Time) error {
	var due <-chan time.Time
	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()
		due = timer.C
	}
	if r, err := m.journal.After(revision, nil, 1); err == nil && len(r.Sets) == 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-due:
			return nil
		case <-r.Changed:
		}
	}
	return await.For(ctx, settle)
}

// pass makes the requests that a state needs. It returns when the next pass is due if the state does not change; zero for
// never.
func (m *Manager) pass(ctx context.Context, state *journal.State) time.Time {
	b := newBook(state)
	p := &pass{Manager: m, book: b, node: m.node()}
	defer p.show(ctx)
	if !b.mirrorsKnown {
		return time.Time{}
	}
	p.observe(time.Now())
	names := slices.SortedFunc(maps.Keys(b.names), compareNames)
	next, found := slices.BinarySearchFunc(names, m.unanswered, compareNames)
	if found {
		next++
	}
	for _, name := range slices.Concat(names[next:], names[:next]) { // a pod without an answer has the last turn
		if ctx.Err() != nil {
			break
		}
		p.sync(ctx, name)
	}
	p.remember()
	return p.next
}

// Status returns the state of the mirror pods.
func (m *Manager) Status() v1alpha1.MirrorStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	shown := m.shown
	shown.Problems = slices.Clone(shown.Problems)
	return shown
}
