package podsapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/internal/await"
)

const (
	// callTimeout is the longest time that the kubelet takes to answer.
	callTimeout = 10 * time.Second
	// maxRate and maxBurst limit ListPods and GetPod. The kubelet answers 100 requests a second with a burst of 10, of
	// all its clients together. For more pods than maxGets, one list is requested.
	maxRate  = 20
	maxBurst = 4
	maxGets  = maxBurst
	// refusedRetry is the wait after the kubelet refused a request because its clients together sent too many.
	refusedRetry = 200 * time.Millisecond
)

// errDropped means that the kubelet ended the watch because the client was 100 events behind.
var errDropped = errors.New("dropped, because podconfigd was 100 events behind")

var errSilent = fmt.Errorf("the kubelet does not answer within %v", callTimeout)

// session is one watch with its requests.
type session struct {
	*Client

	api     podsv1alpha1.PodsClient
	stream  podsv1alpha1.Pods_WatchPodsClient
	limiter *rate.Limiter
	doubts  doubts
	// opened means that the watch has sent something.
	opened bool
	// synced is when all pods were known; zero before.
	synced time.Time
}

// session connects and watches until that fails, and returns the error. It calls synced when all pods are known.
func (c *Client) session(ctx context.Context, synced func()) error {
	if c.off {
		c.firstOnce.Do(func() { close(c.first) })
		<-ctx.Done()
		return context.Cause(ctx)
	}
	conn, shut, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer shut()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(c.timeout, func() { cancel(errSilent) })
	defer silent.Stop()
	s := &session{
		Client: c, api: podsv1alpha1.NewPodsClient(conn), limiter: rate.NewLimiter(maxRate, maxBurst), doubts: newDoubts(),
	}
	if err := s.open(ctx); err != nil {
		if !s.opened {
			s.countRefused(watchPods, err)
		}
		return because(ctx, err)
	}
	silent.Stop()
	s.synced = time.Now()
	synced()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.receive(ctx) })
	group.Go(func() error {
		err := s.confirm(ctx)
		cancel(err) // of the watch: otherwise, receive waits for a kubelet that does not answer
		return err
	})
	return group.Wait()
}

// because returns the cause of a context that ended, otherwise the error.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// isRefused reports whether the kubelet refused a request because its clients together sent too many. gRPC has the same code
// for an answer that is larger than maxMessage.
func isRefused(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && !strings.Contains(err.Error(), "larger than max")
}

func (s *session) countRefused(method string, err error) {
	if isRefused(err) {
		s.metrics.refusals.WithLabelValues(method).Inc()
	}
}

// open opens the watch, and takes the initial events.
func (s *session) open(ctx context.Context) (err error) {
	asked, list := s.statuses.now(), s.statuses.begin()
	if s.stream, err = s.api.WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{}); err != nil {
		return fmt.Errorf("watching the kubelet's pods: %w", err)
	}
	header, err := s.stream.Header()
	if err != nil {
		return fmt.Errorf("watching the kubelet's pods: %w", err)
	}
	if err := s.refuseOurs(header); err != nil {
		return err
	}
	for {
		event, err := s.next()
		if err != nil {
			return err
		}
		switch event.GetType() {
		case podsv1alpha1.EventType_ADDED:
		case podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE:
			s.endList(asked, list)
			return nil
		default:
			continue
		}
		p, err := decode(event.GetPod())
		if err != nil {
			return err
		}
		if err := s.statuses.began(&p, asked, list); err != nil {
			return err
		}
	}
}

// next returns the next event of the watch. Since 1.38, the kubelet limits the rate at which watches are opened, with the
// status that a drop has. So this status is a drop only after an event.
func (s *session) next() (*podsv1alpha1.WatchPodsEvent, error) {
	event, err := s.stream.Recv()
	switch {
	case err == nil:
		if !s.opened {
			s.opened = true
			s.metrics.watches.Inc()
		}
		return event, nil
	case s.opened && isRefused(err):
		s.metrics.drops.Inc()
		err = fmt.Errorf("%w: %w", errDropped, err)
	}
	return nil, fmt.Errorf("watching the kubelet's pods: %w", err)
}

// receive takes the events after the initial ones.
func (s *session) receive(ctx context.Context) error {
	for {
		event, err := s.next()
		if err != nil {
			return because(ctx, err)
		}
		s.metrics.events.Inc()
		switch event.GetType() {
		case podsv1alpha1.EventType_ADDED, podsv1alpha1.EventType_MODIFIED, podsv1alpha1.EventType_DELETED:
		default: // a later version of the kubelet may have others, also without a pod
			continue
		}
		p, err := decode(event.GetPod())
		if err != nil {
			return err
		}
		doubt, err := s.statuses.event(&p, event.GetType() == podsv1alpha1.EventType_DELETED)
		if err != nil {
			return err
		}
		if doubt {
			s.doubts.addDoubts(p.uid)
		}
	}
}

// confirm requests the pods in doubt, and in each interval all pods. If the kubelet refuses that, the watch goes on: the kubelet may
// refuse to open another one.
func (s *session) confirm(ctx context.Context) error {
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	listed, late := time.Now(), false
	for {
		all := false
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			all = true
		case <-s.doubts.wake:
		}
		uids := s.doubts.drainDoubts()
		rest, err := s.ask(ctx, uids, all)
		switch {
		case err == nil:
			if !all {
				continue
			}
			if listed = time.Now(); late {
				late = false
				s.setLate(ctx, time.Time{})
			}
			ticker.Reset(s.interval)
		case isRefused(err):
			s.doubts.addDoubts(rest...)
			if all && !late && time.Since(listed) >= 2*s.interval {
				late = true
				s.setLate(ctx, listed.Add(s.interval))
			}
			if all {
				ticker.Reset(refusedRetry)
			}
			_ = await.For(ctx, refusedRetry)
		default:
			return err
		}
	}
}

// ask requests some pods, or all. With an error, it returns the pods without an answer.
func (s *session) ask(ctx context.Context, uids []types.UID, all bool) (rest []types.UID, err error) {
	if all || len(uids) > maxGets {
		return uids, s.list(ctx)
	}
	for i, uid := range uids {
		if err := s.get(ctx, uid); err != nil {
			return uids[i:], err
		}
	}
	return nil, nil
}

// list requests all pods.
func (s *session) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errSilent)
	defer cancel()
	if err := s.limiter.Wait(ctx); err != nil {
		return because(ctx, err)
	}
	asked, list := s.statuses.now(), s.statuses.begin()
	s.metrics.requests.WithLabelValues(listPods).Inc()
	response, err := s.api.ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	if err != nil {
		s.countRefused(listPods, err)
		return because(ctx, fmt.Errorf("listing the kubelet's pods: %w", err))
	}
	for _, data := range response.GetPods() {
		p, err := decode(data)
		if err != nil {
			return err
		}
		doubt, err := s.statuses.listed(&p, asked, list)
		if err != nil {
			return err
		}
		if doubt {
			s.doubts.addDoubts(p.uid)
		}
	}
	s.endList(asked, list)
	return nil
}

// endList ends a complete list. A kubelet 1.36 that has just started lists only the pods that its sources have given so far. So
// for an interval, a pod that a source of podconfigd has is not gone.
//
// kubelet: pkg/kubelet/apis/pods/server.go; since 1.37, validateReady refuses requests until then.
func (s *session) endList(asked, list uint64) {
	var kept map[types.UID]SourcePod
	if s.synced.IsZero() || time.Since(s.synced) < s.interval {
		kept = s.ours()
	}
	s.statuses.forgetUnlisted(asked, list, kept)
}

// get requests one pod.
func (s *session) get(ctx context.Context, uid types.UID) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errSilent)
	defer cancel()
	if err := s.limiter.Wait(ctx); err != nil {
		return because(ctx, err)
	}
	asked := s.statuses.now()
	s.metrics.requests.WithLabelValues(getPod).Inc()
	response, err := s.api.GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: string(uid)})
	var doubt bool
	switch {
	case status.Code(err) == codes.NotFound:
		doubt = s.statuses.missing(uid, asked)
	case err != nil:
		s.countRefused(getPod, err)
		return because(ctx, fmt.Errorf("asking the kubelet for the pod with the UID %s: %w", uid, err))
	default:
		p, err := decode(response.GetPod())
		if err != nil {
			return err
		}
		if p.uid != uid {
			return errors.New("the kubelet gave another pod than the one that was asked for")
		}
		if doubt, err = s.statuses.answer(&p, asked); err != nil {
			return err
		}
	}
	if doubt {
		s.doubts.addDoubts(uid)
	}
	return nil
}
