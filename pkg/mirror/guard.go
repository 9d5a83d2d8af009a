package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
)

const (
	// foreignHold is how long creation stays stopped after the last mirror pod of another client is gone. A kubelet would
	// create it again in less time.
	foreignHold = 2 * time.Minute
	// If another client deletes a mirror pod again within deletedAgain, it interferes. One deletion is none: a person can
	// delete a mirror pod, and an apiserver that is restored from a backup loses some. A kubelet creates it again too.
	deletedAgain = 2 * time.Minute
	// After another client interfered with a mirror pod of podconfigd, creation stays stopped for firstHold. The time
	// doubles with each further interference, up to lastHold.
	firstHold = 10 * time.Minute
	lastHold  = time.Hour
)

// guard decides whether another client manages the mirror pods of the node.
type guard struct {
	// foreign is a mirror pod of another client. foreignSeen is the last pass that saw one. foreignGone is the first pass
	// after that; zero while there is one. A long time can lie between the two passes.
	foreign      types.NamespacedName
	foreignSince time.Time
	foreignSeen  time.Time
	foreignGone  time.Time

	// interfered says how another client interfered with a mirror pod, and what to do; empty if none did. owner is the UID of the node
	// that owned the mirror pod. If the node has another UID now, the interference does not count: the garbage collector
	// deletes the mirror pods of the earlier node.
	interfered string
	owner      types.UID
	since      time.Time
	until      time.Time
	hold       time.Duration
	// fights means that another client writes the status.
	fights bool
}

// sawForeign records a mirror pod of another client.
func (g *guard) sawForeign(now time.Time, name types.NamespacedName) {
	if g.foreignSeen.IsZero() {
		g.foreignSince = now
	}
	g.foreign, g.foreignSeen, g.foreignGone = name, now, time.Time{}
}

// sawInterference records that another client deletes a mirror pod again and again, or writes its status.
func (g *guard) sawInterference(now time.Time, how string, owner types.UID, fights bool) {
	if g.interfered == "" || now.After(g.until) {
		if now.Sub(g.until) > g.hold {
			g.hold = 0 // it is long ago
		}
		g.hold = min(max(2*g.hold, firstHold), lastHold)
		g.since, g.until, g.interfered, g.fights = now, now.Add(g.hold), how, fights
		g.owner = owner
	}
}

// check returns why creation is stopped; nil if it is not. quiet means that the status is not written either. A pass
// calls check after it has recorded what it saw.
func (g *guard) check(now time.Time, node *v1.Node) (stop *v1alpha1.MirrorStop, quiet bool) {
	switch {
	case g.foreignSeen.IsZero() || g.foreignSeen.Equal(now): // there is none, or this pass saw one
	case g.foreignGone.IsZero():
		g.foreignGone = now
	case now.Sub(g.foreignGone) >= foreignHold:
		g.foreign, g.foreignSince, g.foreignSeen, g.foreignGone = types.NamespacedName{}, time.Time{}, time.Time{}, time.Time{}
	}
	if g.interfered != "" && node != nil && node.UID != g.owner {
		g.interfered, g.hold = "", 0
	}
	if !now.Before(g.until) {
		g.interfered = ""
	}
	switch {
	case !g.foreignSeen.IsZero():
		return &v1alpha1.MirrorStop{
			Reason: fmt.Sprintf("another client created the mirror pod %s, so a kubelet manages this node; stop the kubelet and delete its mirror pods, or turn off --create-mirror-pods", g.foreign),
			Since:  g.foreignSince,
		}, true
	case g.interfered != "":
		until := g.until
		return &v1alpha1.MirrorStop{
			Reason: g.interfered + ", or turn off --create-mirror-pods",
			Since:  g.since, Until: &until,
		}, g.fights
	}
	return nil, false
}

// wake returns the time at which the result of check can change; zero for never.
func (g *guard) wake() (at time.Time) {
	if !g.foreignGone.IsZero() {
		at = g.foreignGone.Add(foreignHold)
	}
	if g.interfered != "" {
		at = earlier(at, g.until)
	}
	return at
}

// earlier returns the earlier of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// lastRetry is the longest wait after a failure. That of a kubelet is the same, because it syncs a pod every minute.
const lastRetry = time.Minute

// retries are the waits after failures.
var retries = wait.Backoff{Duration: time.Second, Cap: lastRetry, Jitter: 0.2}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// failed records that a request for a pod failed. If the apiserver did not answer requests for two pods, the requests for
// all pods wait. If it does not answer those for one pod, for example because of a webhook, only that pod waits.
func (p *pass) failed(ctx context.Context, e *entry, op string, pod *v1.Pod, err error) {
	if ctx.Err() != nil {
		return
	}
	now, log := time.Now(), true
	p.metrics.errors.WithLabelValues(op).Inc()
	e.backoff.Failed(now, retries, err)
	switch name := nameOf(pod); {
	case answered(err) || errors.Is(err, errNameTaken) || errors.Is(err, errFinalizers):
		p.outage = await.Backoff{}
	case p.unanswered != name:
		log = p.outage.Wait == 0
		p.outage.Failed(now, retries, err)
		p.unanswered = name
	}
	p.again(later(e.backoff.Next, p.outage.Next))
	e.op = op
	if text := err.Error(); e.problem != text {
		if log {
			klog.FromContext(ctx).Error(err, "A request for a mirror pod failed", "pod", klog.KObj(pod))
		}
		e.problem, e.since = text, now
	}
}

// succeeded records that a request for a pod succeeded.
func (p *pass) succeeded(e *entry, op string) {
	p.metrics.requests.WithLabelValues(op).Inc()
	p.outage = await.Backoff{}
	e.solved()
}

// released ends the wait for the finalizers of a deleted mirror pod, if the present mirror pod is another one or nil.
func (e *entry) released(mirror *v1.Pod) {
	if e.kept != "" && (mirror == nil || mirror.UID != e.kept) {
		e.kept = ""
		e.solved()
	}
}

// confirmed solves the problem of a request to create or delete a mirror pod if the mirror pod of the static pod is there: the
// request was successful, and its answer was lost. static is nil if there is none.
func (e *entry) confirmed(mirror, static *v1.Pod) {
	if (e.op == opCreate || e.op == opDelete) && mirror != nil && static != nil && mirror.DeletionTimestamp == nil && isMirrorOf(mirror, static) {
		e.solved()
	}
}

func (e *entry) solved() { e.backoff, e.problem, e.op, e.since = await.Backoff{}, "", "", time.Time{} }

// answered reports whether the error is an answer of the apiserver about one pod. Any other error concerns the next
// request too.
func answered(err error) bool {
	return apierrors.ReasonForError(err) != "" && !apierrors.IsUnauthorized(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsInternalError(err) && !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}
