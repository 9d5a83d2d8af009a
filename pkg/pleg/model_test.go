package pleg

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is a runtime with containers, delays and a stream of events that the test
// controls.
type model struct {
	mu   sync.Mutex
	rand *rand.Rand
	// slow is the maximum delay of an answer, before and after its data is read.
	slow       time.Duration
	containers []*Container
	pods       map[string]types.UID
	stream     chan RuntimeEvent
	broken     chan error
	// kept are the events during a time without a stream, if keeps.
	keeps    bool
	kept     []RuntimeEvent
	noEvents bool
	// streamErr is the error with which every stream ends at once. attempts counts them.
	streamErr error
	attempts  int
	// fail is the error of all calls.
	fail error
	// late means that an event has its pod as of the time at which it is sent.
	late bool
	// hung are the containers whose inspection hangs.
	hung map[string]bool
}

func newModel(seed uint64) *model {
	return &model{rand: rand.New(rand.NewPCG(seed, 0)), pods: make(map[string]types.UID), hung: make(map[string]bool)}
}

func (m *model) wait(ctx context.Context) error {
	m.mu.Lock()
	var d time.Duration
	if m.slow > 0 {
		d = time.Duration(m.rand.Int64N(int64(m.slow)))
	}
	m.mu.Unlock()
	// No timers that are due at once: Go's race detector sometimes crashes if two
	// goroutines of a synctest bubble run such timers at a time (go1.26.8).
	if d > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(context.Cause(ctx), m.fail)
}

func (m *model) Pods(ctx context.Context) ([]*Pod, error) {
	if err := m.wait(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	var pods []*Pod
	for _, c := range m.containers {
		uid := m.pods[c.ID]
		i := slices.IndexFunc(pods, func(p *Pod) bool { return p.UID == uid })
		if i < 0 {
			i = len(pods)
			pods = append(pods, &Pod{UID: uid})
		}
		listed := *c
		listed.ExitCode, listed.StartedAt, listed.FinishedAt = nil, time.Time{}, time.Time{}
		pods[i].Containers = append(pods[i].Containers, listed)
	}
	m.mu.Unlock()
	return pods, m.wait(ctx)
}

func (m *model) Exit(ctx context.Context, id string) (*Exit, error) {
	if err := m.wait(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	hung := m.hung[id]
	var exit *Exit
	for _, c := range m.containers {
		if c.ID == id && c.ExitCode != nil {
			exit = &Exit{Code: *c.ExitCode, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt}
		}
	}
	m.mu.Unlock()
	if hung {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return exit, nil
}

func (m *model) Events(ctx context.Context, opened func(), handle func(RuntimeEvent)) error {
	if err := m.wait(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	m.attempts++
	if err := m.streamErr; err != nil {
		m.mu.Unlock()
		opened()
		return err
	}
	if m.noEvents {
		m.mu.Unlock()
		return fmt.Errorf("%w: no such method", ErrNoEvents)
	}
	stream, broken := make(chan RuntimeEvent, 10000), make(chan error, 1)
	for _, e := range m.kept {
		stream <- e
	}
	m.kept, m.stream, m.broken = nil, stream, broken
	m.mu.Unlock()
	opened()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-broken:
			return err
		case e := <-stream:
			if err := m.wait(ctx); err != nil {
				return err
			}
			if m.late {
				m.mu.Lock()
				e.Pod = m.show(e.ContainerID)
				m.mu.Unlock()
			}
			handle(e)
		}
	}
}

// tries returns the number of attempts to open the stream.
func (m *model) tries() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attempts
}

// breakStream ends the stream. Events that are being sent are lost.
func (m *model) breakStream() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream != nil {
		m.broken <- errors.New("the stream broke")
		m.stream, m.broken = nil, nil
	}
}

// send sends an event. The caller holds the lock.
func (m *model) send(kind RuntimeEventType, id string) {
	e := RuntimeEvent{Type: kind, At: time.Now(), ContainerID: id, Pod: m.show(id)}
	switch {
	case m.stream != nil:
		m.stream <- e
	case m.keeps:
		m.kept = append(m.kept, e)
	}
}

// show returns the pod of a container; nil if it has nothing. The caller holds the lock.
func (m *model) show(id string) *Pod {
	pod := &Pod{UID: m.pods[id]}
	for _, c := range m.containers {
		if m.pods[c.ID] == pod.UID {
			pod.Containers = append(pod.Containers, *c)
		}
	}
	if len(pod.Containers) == 0 {
		return nil
	}
	return pod
}

// step moves a container to the next state. StateNone creates it.
func (m *model) step(pod types.UID, id string, to State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if to == StateCreated {
		m.pods[id] = pod
		m.containers = append(m.containers, &Container{ID: id, Name: id, State: StateCreated, CreatedAt: time.Now()})
		m.send(EventCreated, id)
		return
	}
	i := slices.IndexFunc(m.containers, func(c *Container) bool { return c.ID == id })
	switch to {
	case StateRunning:
		m.containers[i].State, m.containers[i].StartedAt = StateRunning, time.Now()
		m.send(EventStarted, id)
	case StateExited:
		m.containers[i].State, m.containers[i].ExitCode, m.containers[i].FinishedAt = StateExited, new(int32(len(id))), time.Now()
		m.send(EventStopped, id)
	case StateNone:
		m.containers = slices.Delete(m.containers, i, i+1)
		m.send(EventDeleted, id)
	}
}

// steps moves a container through several states.
func (m *model) steps(pod types.UID, id string, states ...State) {
	for _, to := range states {
		m.step(pod, id, to)
	}
}

// mute sends no events during do.
func (m *model) mute(do func()) {
	m.mu.Lock()
	stream, keeps := m.stream, m.keeps
	m.stream, m.keeps = nil, false
	m.mu.Unlock()
	do()
	m.mu.Lock()
	m.stream, m.keeps = stream, keeps
	m.mu.Unlock()
}

// receiver runs a generator inside a bubble and keeps its events.
type receiver struct {
	*Generator
	mu     sync.Mutex
	events []*PodLifecycleEvent
	// pause is the time that the receiver takes for each event.
	pause  time.Duration
	log    *logBuffer
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func read(t *testing.T, opts Options) *receiver {
	t.Helper()
	return readLogging(t, opts, new(logBuffer))
}

func readLogging(t *testing.T, opts Options, log *logBuffer) *receiver {
	t.Helper()
	r := &receiver{Generator: New(opts), log: log}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log)))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	r.cancel = cancel
	r.done.Go(func() {
		if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	r.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-r.Watch():
				r.mu.Lock()
				r.events = append(r.events, e)
				pause := r.pause
				r.mu.Unlock()
				if pause > 0 { // as in wait
					select {
					case <-ctx.Done():
					case <-time.After(pause):
					}
				}
			}
		}
	})
	return r
}

// logBuffer is a log. It may be read after stop.
type logBuffer struct {
	mu sync.Mutex // guards writes
	bytes.Buffer
	// blocks is a part of a line that is not logged before released is closed, if not empty.
	blocks   string
	released chan struct{}
}

func (b *logBuffer) Write(line []byte) (int, error) {
	if b.blocks != "" && bytes.Contains(line, []byte(b.blocks)) {
		<-b.released
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(line)
}

func (r *receiver) stop() {
	r.cancel()
	r.done.Wait()
}

// take returns the events since the last time, by type, container and exit code.
func (r *receiver) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, e := range r.events {
		line := fmt.Sprintf("%s %s/%s", e.Type, e.ID, e.Container)
		if e.ExitCode != nil {
			line += fmt.Sprint(" ", *e.ExitCode)
		}
		lines = append(lines, line)
	}
	r.events = nil
	return lines
}

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}
