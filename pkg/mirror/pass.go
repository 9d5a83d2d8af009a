package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// pass compares all pods once, and makes the requests that follow.
type pass struct {
	*Manager
	book *book
	node *v1.Node
	// stop is why no mirror pods are created; nil if they are. quiet means that their status is not written either.
	stop  *v1alpha1.MirrorStop
	quiet bool
	// next is when the next pass is due; zero for never.
	next time.Time
}

// again makes the next pass due at the time, or earlier.
func (p *pass) again(at time.Time) { p.next = earlier(p.next, at) }

// observe compares the mirror pods with the last pass, to find what other clients created or deleted.
func (p *pass) observe(now time.Time) {
	there := make(map[types.UID]bool, len(p.book.mirrors))
	for name, mirror := range p.book.mirrors {
		there[mirror.UID] = true
		switch {
		case !isOwn(mirror):
			p.guard.sawForeign(now, name)
		case mirror.DeletionTimestamp != nil:
			p.vanished(now, mirror.UID)
		}
		if e := p.entries[name]; e != nil && e.made != nil && p.deletions[mirror.UID] == nil {
			e.made = nil
		}
	}
	for _, e := range p.entries {
		if e.made != nil && p.removed[e.made.UID] {
			e.made = nil
		}
	}
	for uid := range p.known {
		if !there[uid] && !p.isMade(uid) {
			p.vanished(now, uid)
		}
	}
	p.expire(now, there)
	p.stop, p.quiet = p.guard.check(now, p.node)
	p.again(p.guard.wake())
}

// expire forgets requests whose effect was not confirmed in time, and names without a pod. there has the UIDs of the
// mirror pods of the apiserver source.
func (p *pass) expire(now time.Time, there map[types.UID]bool) {
	for uid, d := range p.deletions {
		if now.Sub(d.at) >= unconfirmed {
			delete(p.deletions, uid)
		} else if there[uid] {
			p.again(d.at.Add(unconfirmed))
		}
	}
	for name, e := range p.entries {
		switch {
		case e.made == nil:
		case now.Sub(e.madeAt) >= unconfirmed:
			e.made = nil
		default:
			p.again(e.madeAt.Add(unconfirmed))
		}
		if _, wanted := p.book.statics[name]; !wanted && p.book.mirrors[name] == nil {
			delete(p.entries, name)
		}
	}
}

// isMade reports whether a mirror pod was created, and the apiserver source does not have it yet.
func (p *pass) isMade(uid types.UID) bool {
	e := p.entries[p.known[uid].name]
	return e != nil && e.made != nil && e.made.UID == uid
}

// vanished handles a mirror pod that is gone, or is being deleted. If its static pod is unchanged and the Manager did not
// delete the mirror pod, another client did. The first time, it is created again.
func (p *pass) vanished(now time.Time, uid types.UID) {
	k, was := p.known[uid]
	if !was || p.deletions[uid] != nil {
		return
	}
	if s, wanted := p.book.statics[k.name]; !wanted || hashOf(s.pod) != k.hash {
		return
	}
	e := p.entries[k.name] // known mirror pods have one
	if !e.lost.IsZero() && now.Sub(e.lost) <= deletedAgain {
		p.guard.sawInterference(now, fmt.Sprintf("another client deleted the mirror pod %s twice within two minutes; "+
			"stop that client, such as a kubelet or another podconfigd for this node", k.name), k.owner, false)
	}
	e.lost = now
}

// current returns the mirror pod of a name: that of the apiserver source, or the one that was just created.
func (p *pass) current(name types.NamespacedName) *v1.Pod {
	mirror := p.book.mirrors[name]
	if mirror != nil && p.deletions[mirror.UID] != nil && p.deletions[mirror.UID].done {
		mirror = nil
	}
	if e := p.entries[name]; mirror == nil && e != nil {
		return e.made
	}
	return mirror
}

// sync makes the requests for one name.
//
// kubelet: pkg/kubelet/kubelet.go tryReconcileMirrorPods, and the orphaned mirror pods in
// pkg/kubelet/kubelet_pods.go HandlePodCleanups.
func (p *pass) sync(ctx context.Context, name types.NamespacedName) {
	e := p.entries[name]
	if e == nil {
		e = new(entry)
		p.entries[name] = e
	}
	s, wanted := p.book.statics[name]
	mirror := p.current(name)
	if mirror != nil && !isOwn(mirror) {
		e.solved()
		return
	}
	e.released(mirror)
	e.confirmed(mirror, s.pod)
	if now := time.Now(); e.backoff.Waits(now) || p.outage.Waits(now) {
		p.again(later(e.backoff.Next, p.outage.Next))
		return
	}
	switch {
	case !wanted && mirror == nil, wanted && mirror == nil && !s.seen:
		return
	case !wanted:
		if p.book.complete && p.mayDelete(mirror) {
			p.delete(ctx, e, mirror, "its static pod is gone")
		}
		return
	case mirror == nil:
	case mirror.DeletionTimestamp != nil, !isMirrorOf(mirror, s.pod):
		if !s.seen || !p.mayDelete(mirror) || !p.delete(ctx, e, mirror, "it does not match its static pod") {
			return
		}
	default:
		p.writeStatus(ctx, e, s.pod, mirror)
		return
	}
	p.create(ctx, e, s.pod)
}

// mayDelete reports whether a mirror pod may be deleted. While creation is stopped, a mirror pod can belong to another
// podconfigd. It does not if it matched a static pod here, or is already being deleted.
func (p *pass) mayDelete(mirror *v1.Pod) bool {
	_, ours := p.known[mirror.UID]
	return p.stop == nil || ours || p.deletions[mirror.UID] != nil || mirror.DeletionTimestamp != nil
}

// Why a static pod has no mirror pod although the apiserver answers.
var (
	errNameTaken  = errors.New("creating the mirror pod: the apiserver has bound another pod with this name to the node")
	errFinalizers = errors.New("the apiserver keeps it until others remove its finalizers")
)

// create creates the mirror pod of a static pod, unless creation is stopped or the Node is missing.
//
// kubelet: pkg/kubelet/pod/mirror_client.go CreateMirrorPod.
func (p *pass) create(ctx context.Context, e *entry, static *v1.Pod) {
	if p.stop != nil || p.node == nil || p.node.UID == "" || p.node.DeletionTimestamp != nil {
		return
	}
	if p.book.bound[nameOf(static)] {
		p.failed(ctx, e, opCreate, static, errNameTaken)
		return
	}
	pod := *static
	pod.UID, pod.ResourceVersion, pod.Status = "", "", v1.PodStatus{}
	pod.Annotations = maps.Clone(static.Annotations)
	pod.Annotations[v1.MirrorPodAnnotationKey] = hashOf(static)
	pod.Annotations[config.OwnMirrorAnnotationKey] = "true"
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.SchemeGroupVersion.String(), Kind: "Node", Name: p.node.Name, UID: p.node.UID, Controller: new(true),
	}}
	if p.limiter.Wait(ctx) != nil {
		return
	}
	made, err := p.client.Create(ctx, &pod)
	if err != nil {
		p.failed(ctx, e, opCreate, static, fmt.Errorf("creating the mirror pod: %w", err))
		return
	}
	p.succeeded(e, opCreate)
	e.made, e.madeAt = made, time.Now()
	klog.FromContext(ctx).Info("Created a mirror pod", "pod", klog.KObj(static), "podUID", static.UID)
	p.writeStatus(ctx, e, static, made)
}

// delete deletes a mirror pod, and reports whether the apiserver no longer has it.
//
// kubelet: pkg/kubelet/pod/mirror_client.go DeleteMirrorPod.
func (p *pass) delete(ctx context.Context, e *entry, mirror *v1.Pod, why string) bool {
	if p.limiter.Wait(ctx) != nil {
		return false
	}
	d := &deletion{at: time.Now()}
	p.deletions[mirror.UID] = d
	finalizers, err := p.client.Delete(ctx, mirror.Namespace, mirror.Name, mirror.UID)
	if len(finalizers) > 0 && err == nil {
		e.kept = mirror.UID
		err = fmt.Errorf("%w: %s", errFinalizers, strings.Join(finalizers, ", "))
	}
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		p.failed(ctx, e, opDelete, mirror, fmt.Errorf("deleting the mirror pod, because %s: %w", why, err))
		return false
	}
	d.done, e.made = true, nil
	if e.problem != "" && e.op != opDelete { // the next mirror pod was rejected: perhaps the apiserver still has this one
		return true
	}
	p.succeeded(e, opDelete)
	if gone {
		return true
	}
	klog.FromContext(ctx).Info("Deleted a mirror pod", "pod", klog.KObj(mirror), "podUID", mirror.UID, "reason", why)
	return true
}

// remember records the mirror pods that match their static pods.
func (p *pass) remember() {
	clear(p.known)
	for name, s := range p.book.statics {
		mirror := p.current(name)
		if mirror != nil && isOwn(mirror) && mirror.DeletionTimestamp == nil && isMirrorOf(mirror, s.pod) {
			p.known[mirror.UID] = knownMirror{name, hashOf(s.pod), ownerOf(mirror)}
		}
	}
}
