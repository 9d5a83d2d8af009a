package owners

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
)

// retries are the waits after a request that failed. refusals are those after the apiserver has not found what was asked for, or
// forbade it.
var (
	retries  = wait.Backoff{Duration: time.Second, Cap: time.Minute, Jitter: 0.5}
	refusals = wait.Backoff{Duration: 10 * time.Second, Cap: 5 * time.Minute, Jitter: 0.5}
)

// reread is the wait after which a known owner is asked for again, with up to half of it more. What is above an owner, and its labels,
// can change without a change of any pod. On a node with 60 owners, this is a request in 37 seconds.
const reread = 30 * time.Minute

// known returns the wait of an owner that is known since now.
func known(now time.Time) await.Backoff {
	return await.Backoff{Next: now.Add(wait.Jitter(reread, 0.5))}
}

// kindError is an error of a kind, and not of an owner of this kind.
type kindError struct{ error }

func (e kindError) Unwrap() error { return e.error }

// ask asks the apiserver for an owner, once.
func (r *Resolver) ask(ctx context.Context, o *owner) {
	began := time.Now()
	object, err := r.get(ctx, &o.ref)
	if ctx.Err() != nil {
		return
	}
	r.requests.WithLabelValues(resultOf(err)).Inc()
	now, k := time.Now(), r.kinds[o.kindRef]
	_, ofKind := errors.AsType[kindError](err)
	r.mu.Lock()
	defer r.mu.Unlock()
	o.asked, o.failed = began, err != nil && !isRefusal(err)
	switch {
	case err == nil:
		labels, up := labelsOf(object), controllerOf(object, o.Namespace)
		r.unsaved = r.unsaved || !o.known || !maps.Equal(o.Labels, labels) || !reflect.DeepEqual(o.Up, up)
		o.known, o.Labels, o.Up = true, labels, up
		o.problem, o.backoff = "", known(now)
		k.problem, k.backoff = "", await.Backoff{}
	case apierrors.IsForbidden(err), ofKind && isRefusal(err): // for all owners of this kind in the namespace
		k.backoff.Failed(now, refusals, err)
		if k.problem == "" {
			klog.FromContext(ctx).Info("The apiserver refuses to show owners of this kind, so lookups have only the references to them",
				"namespace", o.Namespace, "apiVersion", o.APIVersion, "kind", o.Kind, "reason", err.Error())
		}
		k.problem = err.Error()
		for _, other := range r.owners { // one of them is asked for at a time
			other.failed = other.failed && other.kindRef != o.kindRef
		}
	case isRefusal(err):
		o.backoff.Failed(now, refusals, err)
		if o.problem == "" {
			klog.FromContext(ctx).Info("The apiserver does not have the owner of a pod",
				"namespace", o.Namespace, "apiVersion", o.APIVersion, "kind", o.Kind, "name", o.Name, "reason", err.Error())
		}
		o.problem = err.Error()
	default:
		r.unanswered(ctx, o, now, err)
		return
	}
	r.answered(ctx)
}

// unanswered notes that the apiserver did not answer. mu must be locked.
func (r *Resolver) unanswered(ctx context.Context, o *owner, now time.Time, err error) {
	waits := retries
	if o.known {
		waits = refusals // nobody waits for it
	}
	o.backoff.Failed(now, waits, err)
	if r.failing == "" {
		klog.FromContext(ctx).Error(err, "Could not read the owner of a pod, trying again later without a further message",
			"namespace", o.Namespace, "apiVersion", o.APIVersion, "kind", o.Kind, "name", o.Name)
	}
	r.failing = err.Error()
}

// answered notes that the apiserver answered. The fault ends when it has answered for each owner. mu must be locked.
func (r *Resolver) answered(ctx context.Context) {
	if r.failing == "" {
		return
	}
	for _, o := range r.owners {
		if o.failed && r.present(o) {
			return
		}
	}
	klog.FromContext(ctx).Info("Owners of pods can be read again")
	r.failing = ""
}

// isRefusal reports whether the same request has no chance soon.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err)
}

// get reads the metadata of an owner.
func (r *Resolver) get(ctx context.Context, of *ref) (*metav1.PartialObjectMetadata, error) {
	at, err := r.path(ctx, of)
	if err != nil {
		return nil, kindError{err}
	}
	if faults := content.IsPathSegmentName(of.Name); len(faults) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name %q of an owner reference %s", of.Name, faults[0]))
	}
	if err := r.limiter.Wait(ctx); err != nil {
		return nil, err
	}
	object, err := r.opts.Client.Get(ctx, at)
	if err == nil && object.UID != of.UID { // who wrote the reference may not know the object
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: r.kinds[of.kindRef].resource}, of.Name)
	}
	return object, err
}

// resultOf returns the result of a request, for the metric.
func resultOf(err error) string {
	switch {
	case err == nil:
		return resultOK
	case apierrors.IsForbidden(err):
		return resultForbidden
	case apierrors.IsNotFound(err):
		return resultNotFound
	}
	return resultError
}
