package mirror

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
)

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
