// Package recorder reads what a container runtime reports about pods, on request:
//
//	r := recorder.New(recorder.Options{Reader: runtime, Pod: generator.Pod})
//	go r.Run(ctx)
//	r.Request(uid)
//	reading := <-r.Watch()
//
// It is not part of package pleg, so that users of pleg do not depend on the messages of CRI.
package recorder

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

const (
	// A pod is read once a period. Up to burst readings of one that was not read lately need no pause: its sandbox starts, and a
	// container is created and starts.
	period = time.Second
	burst  = 3
	// recordRetry is the wait after a record that could not be read.
	recordRetry = 5 * time.Second
	// recordReaders is the number of records that are read at the same time. A record that takes longer than slowRecord
	// no longer counts.
	recordReaders = 4
	slowRecord    = time.Second
)

// Reader reads what a runtime reports about the sandboxes and containers of a pod.
type Reader interface {
	// Record returns the name of the runtime, and the status of each of the sandboxes and containers that the runtime
	// still has.
	Record(ctx context.Context, sandboxIDs, containerIDs []string) (record *podstatus.Record, runtime string, err error)
}

// Options configures a recorder. A duration of 0 is its default.
type Options struct {
	Reader Reader
	// Pod returns the pod with a UID, or nil if the runtime has none. It returns false as long as that is not known.
	Pod func(uid types.UID) (*pleg.Pod, bool)
	// CallTimeout is the timeout of one reading.
	CallTimeout time.Duration
}

// Recorder reads the records of pods on request. A pod that is requested often is read a few times at once, and then once a second.
// The last state is always read.
//
// kubelet: pkg/kubelet/pleg/generic.go updateCache, which reads at each change.
type Recorder struct {
	opts     Options
	readings chan podstatus.Reading

	mu sync.Mutex
	// queue has its own goroutines. It is nil before Run.
	queue workqueue.TypedDelayingInterface[types.UID]
	// requested has the pods that were requested and not forgotten.
	requested map[types.UID]*requested
}

// requested is a pod that was requested.
type requested struct {
	// next is when the next reading would be if there were no burst.
	next time.Time
	// since is when the first attempt after the last reading began; zero if there is none.
	since time.Time
	// failed means that the last attempt failed.
	failed bool
}

// New returns a recorder. It does nothing before Run.
func New(opts Options) *Recorder {
	opts.CallTimeout = cmp.Or(opts.CallTimeout, pleg.DefaultRelistThreshold/6)
	return &Recorder{
		opts: opts, readings: make(chan podstatus.Reading), requested: make(map[types.UID]*requested),
	}
}

// Request requests the record of a pod. It does not block.
func (r *Recorder) Request(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pod := r.requested[uid]
	if pod == nil {
		pod = new(requested)
		r.requested[uid] = pod
	}
	if r.queue != nil { // otherwise Run reads it first
		r.queue.AddAfter(uid, pod.wait())
	}
}

// Forget ends the readings of a pod.
func (r *Recorder) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.requested, uid)
}

// Watch returns the channel of readings. Each call returns the same channel.
func (r *Recorder) Watch() <-chan podstatus.Reading { return r.readings }

// wait returns the time until the pod may be read again.
func (pod *requested) wait() time.Duration {
	return max(0, time.Until(pod.next.Add(-(burst-1)*period)))
}

// Run reads records until the context is done, and returns the cause of the context.
func (r *Recorder) Run(ctx context.Context) error {
	r.mu.Lock()
	r.queue = workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{})
	for uid := range r.requested {
		r.queue.Add(uid)
	}
	r.mu.Unlock()
	var readers sync.WaitGroup
	readers.Go(func() {
		places := make(chan struct{}, recordReaders)
		for {
			places <- struct{}{} //nolint:ctxsend // each reader leaves its place when the context ends
			uid, stopped := r.queue.Get()
			if stopped {
				return
			}
			readers.Go(func() {
				leave := sync.OnceFunc(func() { <-places })
				defer leave()
				defer r.queue.Done(uid)
				r.serve(ctx, uid, leave)
			})
		}
	})
	<-ctx.Done()
	r.queue.ShutDown()
	readers.Wait()
	return context.Cause(ctx)
}

// serve reads one record, unless it is too early or the pod was forgotten. If the runtime takes long, it calls leave to make
// place for other pods.
func (r *Recorder) serve(ctx context.Context, uid types.UID, leave func()) {
	r.mu.Lock()
	wanted := r.requested[uid]
	var wait time.Duration
	if wanted != nil {
		wait = wanted.wait()
	}
	r.mu.Unlock()
	if wait > 0 {
		r.queue.AddAfter(uid, wait)
		return
	}
	if wanted == nil {
		return
	}
	pod, listed := r.opts.Pod(uid)
	if !listed {
		r.queue.AddAfter(uid, recordRetry) // an event requests it earlier if it is listed earlier
		return
	}
	r.mu.Lock()
	if wanted.since.IsZero() {
		wanted.since = time.Now()
	}
	r.mu.Unlock()
	slow := time.AfterFunc(slowRecord, leave)
	reading, err := r.readPod(ctx, uid, pod)
	slow.Stop()
	if r.report(ctx, uid, wanted, err); err != nil {
		r.queue.AddAfter(uid, recordRetry)
		return
	}
	select {
	case <-ctx.Done():
	case r.readings <- reading:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); wanted.next.Before(now) {
		wanted.next = now
	}
	wanted.next = wanted.next.Add(period)
}

// Uninspected returns the pods whose record can't be read, and since when: an attempt failed, or takes longer than
// pleg.UninspectedAfter.
func (r *Recorder) Uninspected() map[types.UID]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := make(map[types.UID]time.Time)
	for uid, pod := range r.requested {
		if !pod.since.IsZero() && (pod.failed || time.Since(pod.since) > pleg.UninspectedAfter) {
			since[uid] = pod.since
		}
	}
	return since
}

func (r *Recorder) readPod(ctx context.Context, uid types.UID, pod *pleg.Pod) (podstatus.Reading, error) {
	reading := podstatus.Reading{UID: uid, Record: new(podstatus.Record)}
	if pod == nil {
		return reading, nil
	}
	var sandboxes, containers []string
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.Sandbox {
			sandboxes = append(sandboxes, c.ID)
		} else {
			containers = append(containers, c.ID)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.CallTimeout)
	defer cancel()
	record, runtime, err := r.opts.Reader.Record(ctx, sandboxes, containers)
	if err != nil {
		return reading, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	reading.Record, reading.Runtime = record, runtime
	return reading, nil
}

// report notes how an attempt ended. It logs the first error of a pod after a success, and the first success after an error.
func (r *Recorder) report(ctx context.Context, uid types.UID, pod *requested, err error) {
	r.mu.Lock()
	again := pod.failed
	if pod.failed = err != nil; !pod.failed {
		pod.since = time.Time{}
	}
	r.mu.Unlock()
	switch logger := klog.FromContext(ctx); {
	case ctx.Err() != nil || again == (err != nil):
	case err != nil:
		logger.Error(err, "Failed to read the state of a pod from the runtime, retrying", "after", recordRetry)
	default:
		logger.Info("The state of the pod is read from the runtime again", "podUID", uid)
	}
}
