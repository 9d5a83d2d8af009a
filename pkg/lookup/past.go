package lookup

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// load adds the pods that ended before the start.
func (l *Lookup) load(ctx context.Context) {
	defer close(l.loaded)
	if l.past == nil {
		return
	}
	l.pods.sync()
	for pod, at := range l.past(time.Now().Add(-l.pods.ended.retention)) {
		if ctx.Err() != nil {
			return
		}
		l.pods.addPast(pod, at)
	}
}

func (p *pods) addPast(pod *journal.Pod, at time.Time) {
	if now := time.Now(); at.After(now) {
		at = now // the clock was set back: it would be known for longer than the retention
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.syncLocked()
	uid := pod.Object.UID
	if before := p.ended.ofUID(uid); p.byUID[uid] == nil && (before == nil || before.at.Before(at)) {
		p.ended.add(pod, at)
	}
}

// isLoading reports whether pods that ended before the start may be missing.
func (l *Lookup) isLoading() bool {
	select {
	case <-l.loaded:
		return false
	default:
		return l.past != nil
	}
}

// These are why an answer has not the whole pod.
var (
	errNoLog = errors.New("it has ended, and only a log has whole pods that ended: start podconfigd with --state-dir")
	errGone  = errors.New("the journal in the state directory no longer has it")
)

// addWhole adds to the answer the whole pods that ended, from the log. The error is the cause of the context.
func (l *Lookup) addWhole(ctx context.Context, scope *view.Scope, q *Query, answer *v1alpha1.Lookup) error {
	ended := func(p *v1alpha1.LookupPod) bool { return q.Pods && p.Ended != nil && p.Source != "" }
	at := make(map[types.UID]time.Time)
	for i := range answer.Pods {
		if p := &answer.Pods[i]; ended(p) {
			at[types.UID(p.UID)] = *p.Ended
		}
	}
	var pods map[types.UID]*journal.Pod
	if l.wholePods != nil && len(at) > 0 {
		if pods = l.wholePods(ctx, at); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	for i := range answer.Pods {
		p := &answer.Pods[i]
		if !ended(p) {
			continue
		}
		pod := pods[types.UID(p.UID)]
		switch {
		case l.wholePods == nil:
			p.PodMissing = errNoLog.Error()
		case pod == nil:
			p.PodMissing = errGone.Error()
		default:
			if pod = scope.See(pod); pod != nil {
				p.Pod = whole(pod.Object)
			}
		}
	}
	return nil
}
