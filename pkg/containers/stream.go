package containers

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

const (
	// maxChanges is the number of changes in the ring. Everybody who may create pods can give them long labels, so the ring has fewer
	// changes if the sizes of their rows are more than maxBytes.
	maxChanges = 4096
	maxBytes   = 16 << 20
	// linger is how long changes are recorded after the last subscriber has left.
	linger = 5 * time.Minute
)

// Runtime has the records of the container runtime. A pleg.Generator implements it.
type Runtime interface {
	Follow(changed func(pleg.Found)) (present []pleg.Found, stop func())
	Behind(at time.Time) error
}

// Lookup has what else is known of containers. A lookup.Lookup implements it.
type Lookup interface {
	PodOf(recorded *pleg.Found) (pod *journal.Pod, ended bool)
	ResourcesOf(pod *journal.Pod, container string) *v1alpha1.ContainerResources
	AddHandles(ctx context.Context, c *v1alpha1.LookupContainer, since time.Time) (bool, error)
}

// Options configures a Stream.
type Options struct {
	// Runtime is nil without a container runtime: then Check returns an error.
	Runtime Runtime
	Journal *journal.Journal
	Lookup  Lookup
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Stream is the stream of containers. It is safe for concurrent use.
type Stream struct {
	opts Options
	// wake has an element if Run may have something to do.
	wake chan struct{}

	mu sync.Mutex // guards what follows
	// recording is nil while nothing is recorded.
	recording *recording
	// subscribers is the number of cursors and lists, and left is when the last one was closed.
	subscribers int
	left        time.Time
	// started is closed when there is a recording.
	started chan struct{}
	// last is the newest revision of the recordings before.
	last int64
}

// New returns a stream. Nobody gets anything before Run.
func New(opts Options) *Stream {
	s := &Stream{opts: opts, wake: make(chan struct{}, 1), started: make(chan struct{})}
	metric.In(opts.Registerer, "containers").GaugeFunc("subscribers", "Subscribers of the stream of containers.", func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(s.subscribers)
	})
	return s
}

// ErrNoRuntime is the error of Check without a container runtime. It has a status.
var ErrNoRuntime = apistatus.New(http.StatusNotImplemented, "there is no container runtime: name one with --container-runtime-endpoint")

// Check returns an error if there are no containers to watch, or nil. A nil stream has none.
func (s *Stream) Check() error {
	if s == nil || s.opts.Runtime == nil {
		return ErrNoRuntime
	}
	return nil
}

// Listed tells the stream that the devices of containers may have changed. It does not block.
func (s *Stream) Listed() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording != nil {
		s.recording.push(input{listed: true})
	}
}

// Restart begins another instance: each subscriber gets a reset, and nobody resumes. It is for other access rules. A nil stream has no
// subscribers.
func (s *Stream) Restart() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked("the access rules changed")
	await.Signal(s.wake)
}

// endLocked ends the recording, if there is one.
func (s *Stream) endLocked(why string) {
	if r := s.recording; r != nil {
		s.last, s.recording, s.started = r.end(why), nil, make(chan struct{})
	}
}

// Run records while there are subscribers, until the context is done. It returns the cause of the context.
func (s *Stream) Run(ctx context.Context) error {
	for {
		for s.wanted(time.Now()) > 0 && ctx.Err() == nil {
			s.record(ctx)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.wake:
		}
	}
}

// wanted returns for how long changes have to be recorded.
func (s *Stream) wanted(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers > 0 {
		return linger
	}
	return s.left.Add(linger).Sub(now)
}

// enter adds a subscriber, until leave is called.
func (s *Stream) enter() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers++
	await.Signal(s.wake)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers--
		s.left = time.Now()
	})
}

// current returns the recording, and waits for one. The error is the cause of the context.
func (s *Stream) current(ctx context.Context) (*recording, error) {
	for {
		s.mu.Lock()
		r, started := s.recording, s.started
		s.mu.Unlock()
		if r != nil {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-started:
		}
	}
}

// record records while changes are wanted, until the recording ends or the context is done.
func (s *Stream) record(ctx context.Context) {
	var reading sync.WaitGroup
	defer reading.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	r := newRecording(&s.opts, max(time.Now().UnixMilli(), s.last+1))
	s.mu.Unlock()
	position := s.opts.Journal.Revision()
	present, stop := s.opts.Runtime.Follow(func(f pleg.Found) { r.push(input{found: &f}) })
	defer stop()
	for i := range present {
		r.found(&present[i])
	}
	r.readMissing(ctx)
	r.apply()
	r.begin()
	reading.Go(func() { r.readHandles(ctx) })
	s.mu.Lock()
	s.recording = r
	close(s.started)
	s.mu.Unlock()
	r.listed() // before this, Listed did nothing
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.recording == r {
			s.endLocked("nobody had watched the containers for some minutes")
		}
		r.release()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var pods <-chan struct{}
		position, pods = r.followPods(position)
		if !r.apply() {
			return
		}
		left := s.wanted(time.Now())
		if left <= 0 {
			return
		}
		if !r.sync() {
			left = syncPeriod
		}
		timer.Reset(left)
		select {
		case <-ctx.Done():
			return
		case <-pods:
		case <-r.wake:
		case <-s.wake: // the recording may have ended
		case <-timer.C:
		}
	}
}
