package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// reconcilePeriod is the minimum time between two writes of a status that another client changes.
//
// kubelet: syncPeriod in pkg/kubelet/status/status_manager.go.
const reconcilePeriod = 10 * time.Second

// outdated is how long the wait after an outdated mirror pod grows before it is a problem.
const outdated = 8 * time.Second

// writeStatus writes the status of a static pod to its mirror pod, if it differs.
//
// kubelet: pkg/kubelet/status/status_manager.go syncPod.
func (p *pass) writeStatus(ctx context.Context, e *entry, static, mirror *v1.Pod) {
	if p.quiet || static.Status.StartTime == nil { // nothing is known of the pod
		return
	}
	if e.static == static && (e.mirror == mirror || e.written != nil && equality.Semantic.DeepEqual(mirror.Status, *e.written)) {
		e.mirror = mirror
		return
	}
	if at := e.writtenAt.Add(reconcilePeriod); e.static == static && time.Now().Before(at) {
		p.again(at) // another client wrote it
		return
	}
	patch, err := statusPatch(static, mirror)
	if err == nil && patch != nil {
		var written *v1.Pod
		if written, err = p.patchStatus(ctx, e, static, mirror); written != nil {
			e.written, e.writtenAt = &written.Status, time.Now()
			p.metrics.requests.WithLabelValues(opStatus).Inc()
		}
		if err == nil && written == nil { // a kubelet writes it
			return
		}
		if isOutdated(err) && e.backoff.Wait < outdated { // the source will have the present version
			e.backoff.Failed(time.Now(), retries, nil)
			p.again(e.backoff.Next)
			return
		}
	}
	if err != nil {
		p.failed(ctx, e, opStatus, static, fmt.Errorf("writing the status of the mirror pod: %w", err))
		return
	}
	p.outage = await.Backoff{}
	e.solved()
	e.static, e.mirror = static, mirror
}

// errReplaced means that the apiserver has another mirror pod.
var errReplaced = errors.New("the apiserver has another pod with this name than it shows in the watch")

// isOutdated reports whether the mirror pod is gone, was replaced, or changed during the write.
func isOutdated(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, errReplaced)
}

// patchStatus writes the status of a static pod to its mirror pod, and returns the mirror pod after that. It requests the
// mirror pod first, because the one of the source can be old. It returns nil if a kubelet has replaced the status that it wrote
// last.
func (p *pass) patchStatus(ctx context.Context, e *entry, static, mirror *v1.Pod) (*v1.Pod, error) {
	if err := p.limiter.Wait(ctx); err != nil {
		return nil, err
	}
	present, err := p.client.Get(ctx, mirror.Namespace, mirror.Name)
	switch {
	case err != nil:
		return nil, err
	case present.UID != mirror.UID:
		return nil, errReplaced
	case e.written != nil && !equality.Semantic.DeepEqual(present.Status, *e.written) && config.KubeletWroteStatus(present):
		now := time.Now()
		p.guard.sawInterference(now, fmt.Sprintf("a kubelet writes the status of the mirror pod %s, so it manages this node; stop the kubelet", nameOf(static)), ownerOf(mirror), true)
		p.stop, p.quiet = p.guard.check(now, p.node)
		p.again(p.guard.wake())
		return nil, nil
	}
	patch, err := statusPatch(static, present)
	if patch == nil || err != nil {
		return present, err
	}
	if err := p.limiter.Wait(ctx); err != nil {
		return nil, err
	}
	return p.client.PatchStatus(ctx, mirror.Namespace, mirror.Name, patch)
}

// statusPatch returns a merge patch that gives a mirror pod the status of its static pod; nil if it already has that
// status. The apiserver rejects the patch if the mirror pod has changed.
func statusPatch(static, mirror *v1.Pod) ([]byte, error) {
	before, err := json.Marshal(v1.Pod{Status: mirror.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(v1.Pod{Status: podstatus.Merge(&mirror.Status, &static.Status)})
	if err != nil {
		return nil, err
	}
	same, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil || string(same) == "{}" {
		return nil, err
	}
	after, err = json.Marshal(v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: mirror.UID, ResourceVersion: mirror.ResourceVersion},
		Status:     podstatus.Merge(&mirror.Status, &static.Status),
	})
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(before, after)
}
