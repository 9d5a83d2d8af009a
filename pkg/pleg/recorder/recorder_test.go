package recorder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// recordReader is a runtime whose one container has a state that the test counts up.
type recordReader struct {
	mu    sync.Mutex
	state uint32
	err   error
	calls []time.Time
}

func (r *recordReader) Record(_ context.Context, sandboxes, containers []string) (*podstatus.Record, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, time.Now())
	if r.err != nil {
		return nil, "", r.err
	}
	record := new(podstatus.Record)
	for _, id := range sandboxes {
		record.Sandboxes = append(record.Sandboxes, &runtimeapi.PodSandboxStatus{Id: id})
	}
	for _, id := range containers {
		record.Containers = append(record.Containers, &runtimeapi.ContainerStatus{Id: id, ExitCode: int32(r.state)})
	}
	return record, "containerd", nil
}

func (r *recordReader) set(state uint32, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.err = state, err
}

// runRecorder runs a recorder in a bubble. It returns the readings so far, and a function that
// ends it.
func runRecorder(t *testing.T, reader Reader, pods map[types.UID]*pleg.Pod) (r *Recorder, got func() []string, stop func()) {
	t.Helper()
	return runRecorderOf(t, reader, func(uid types.UID) (*pleg.Pod, bool) { return pods[uid], pods != nil })
}

func runRecorderOf(t *testing.T, reader Reader, pod func(uid types.UID) (*pleg.Pod, bool)) (r *Recorder, got func() []string, stop func()) {
	t.Helper()
	r = New(Options{Reader: reader, Pod: pod})
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var readings []string
	var group sync.WaitGroup
	group.Go(func() { _ = r.Run(ctx) })
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case reading := <-r.Watch():
				line := fmt.Sprint(reading.UID)
				for _, s := range reading.Record.Sandboxes {
					line += " " + s.Id
				}
				for _, c := range reading.Record.Containers {
					line += fmt.Sprint(" ", c.Id, "=", c.ExitCode)
				}
				mu.Lock()
				readings = append(readings, line)
				mu.Unlock()
			}
		}
	})
	got = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), readings...)
	}
	return r, got, func() { cancel(); group.Wait() }
}

// A pod is read at once, also when its containers start soon after its sandbox. If it is requested more often, it is read once a
// period, and its last state is always read.
func TestRecorderReadsTheLastState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &recordReader{}
		r, got, stop := runRecorder(t, reader, map[types.UID]*pleg.Pod{
			"a": {UID: "a", Containers: []pleg.Container{{ID: "s", Sandbox: true}, {ID: "c"}}},
		})
		for n := range uint32(100) {
			reader.set(n, nil)
			r.Request("a")
			pass(25 * time.Millisecond)
		}
		pass(10 * time.Second)
		stop()
		want := "[a s c=0 a s c=1 a s c=2 a s c=39 a s c=79 a s c=99]"
		if fmt.Sprint(got()) != want {
			t.Errorf("got %v, want %s", got(), want)
		}
		for i := burst; i < len(reader.calls); i++ {
			if apart := reader.calls[i].Sub(reader.calls[i-burst]); apart < period {
				t.Errorf("call %d came %v after the one %d before", i, apart, burst)
			}
		}
	})
}

// A pod that changes for long is read no more often than one that changes once a period, except for the first few.
func TestRecorderReadsOnceAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &recordReader{}
		r, _, stop := runRecorder(t, reader, map[types.UID]*pleg.Pod{"a": {UID: "a"}})
		for range 2 {
			before, begin := len(reader.calls), time.Now()
			for time.Since(begin) < 10*time.Minute {
				r.Request("a")
				pass(100 * time.Millisecond)
			}
			if n := len(reader.calls) - before; n < 600 || n > 600+burst {
				t.Errorf("%d readings in 10 minutes", n)
			}
			pass(time.Minute)
		}
		stop()
	})
}

// A runtime that fails is asked again. A pod that it does not have has an empty record.
func TestRecorderRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &recordReader{err: errors.New("no such file")}
		r, got, stop := runRecorder(t, reader, map[types.UID]*pleg.Pod{"a": {UID: "a", Containers: []pleg.Container{{ID: "c"}}}})
		r.Request("a")
		r.Request("b")
		pass(3*recordRetry + time.Second)
		if fmt.Sprint(got()) != "[b]" || len(reader.calls) != 4 {
			t.Errorf("%v after %d calls", got(), len(reader.calls))
		}
		reader.set(7, nil)
		pass(recordRetry)
		stop()
		if fmt.Sprint(got()) != "[b a c=7]" {
			t.Errorf("got %v", got())
		}
	})
}

// Before the first list, nothing is read: the list makes an event for each container.
func TestRecorderWaitsForTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &recordReader{}
		r, got, stop := runRecorder(t, reader, nil)
		r.Request("a")
		pass(time.Minute)
		stop()
		if len(got()) > 0 || len(reader.calls) > 0 {
			t.Errorf("%v after %d calls", got(), len(reader.calls))
		}
	})
}

// A pod that was not known is looked for again: if the runtime does not have it, there are no events.
func TestRecorderLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known atomic.Bool
		r, got, stop := runRecorderOf(t, &recordReader{}, func(types.UID) (*pleg.Pod, bool) { return nil, known.Load() })
		r.Request("a")
		pass(recordRetry - time.Second)
		if len(got()) > 0 {
			t.Errorf("%v of a pod that is not known", got())
		}
		known.Store(true)
		pass(recordRetry)
		stop()
		if fmt.Sprint(got()) != "[a]" {
			t.Errorf("got %v", got())
		}
	})
}

// Of a pod that was forgotten, nothing is kept, and nothing is read any more.
func TestRecorderForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := &recordReader{}
		r, got, stop := runRecorder(t, reader, map[types.UID]*pleg.Pod{"a": {UID: "a", Containers: []pleg.Container{{ID: "c"}}}})
		reader.set(0, errors.New("it is broken"))
		r.Request("a")
		pass(time.Second)
		r.Forget("a")
		pass(time.Minute)
		if n := len(reader.calls); n != 1 {
			t.Errorf("read %d times", n)
		}
		reader.set(0, nil)
		r.Request("a")
		pass(time.Second)
		r.Request("a")
		r.Request("a")
		r.Forget("a")
		pass(time.Minute)
		if n := len(r.requested); n > 0 {
			t.Errorf("%d pods are kept after %v", n, got())
		}
		stop()
	})
}

// hanging is a reader whose calls for some containers hang.
type hanging struct{ recordReader }

func (h *hanging) Record(ctx context.Context, sandboxes, containers []string) (*podstatus.Record, string, error) {
	if len(containers) > 0 && containers[0] == "hangs" {
		<-ctx.Done()
		return nil, "", ctx.Err()
	}
	return h.recordReader.Record(ctx, sandboxes, containers)
}

// However many pods hang in the runtime, the others are read within a moment.
func TestRecorderReadsBesidePodsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := map[types.UID]*pleg.Pod{"good": {UID: "good", Containers: []pleg.Container{{ID: "c"}}}}
		for n := range 2 * recordReaders {
			uid := types.UID(fmt.Sprint("bad", n))
			pods[uid] = &pleg.Pod{UID: uid, Containers: []pleg.Container{{ID: "hangs"}}}
		}
		r, got, stop := runRecorder(t, new(hanging), pods)
		for uid := range pods {
			r.Request(uid)
		}
		pass(5 * time.Second)
		r.Request("good")
		pass(5 * time.Second)
		if fmt.Sprint(got()) != "[good c=0 good c=0]" {
			t.Errorf("got %v", got())
		}
		stop()
	})
}

// A pod that can't be read is logged once, also if there are several, and so is the end of that.
func TestRecorderLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		lines := 0
		logger := funcr.New(func(string, string) { mu.Lock(); lines++; mu.Unlock() }, funcr.Options{})
		reader := &recordReader{err: errors.New("it is broken")}
		pods := map[types.UID]*pleg.Pod{
			"a": {UID: "a", Name: "a", Containers: []pleg.Container{{ID: "1"}}}, "b": {UID: "b", Name: "b", Containers: []pleg.Container{{ID: "2"}}},
		}
		r := New(Options{Reader: reader, Pod: func(uid types.UID) (*pleg.Pod, bool) { return pods[uid], true }})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		var group sync.WaitGroup
		group.Go(func() { _ = r.Run(ctx) })
		r.Request("a")
		r.Request("b")
		pass(time.Minute)
		if lines != 2 || len(reader.calls) < 20 {
			t.Errorf("%d lines for 2 pods after %d calls", lines, len(reader.calls))
		}
		reader.set(0, nil)
		pass(time.Minute)
		if lines != 4 {
			t.Errorf("%d lines for 2 pods that are read again, want 2", lines-2)
		}
		cancel()
		group.Wait()
	})
}

// A request before Run is not lost. A recorder that never runs leaves nothing behind.
func TestRecorderTakesRequestsBeforeRun(t *testing.T) {
	r := New(Options{Reader: &recordReader{}, Pod: func(uid types.UID) (*pleg.Pod, bool) { return nil, true }})
	r.Request("a")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	if reading := <-r.Watch(); reading.UID != "a" {
		t.Errorf("the reading is of %s", reading.UID)
	}
	cancel()
	<-done
}

// A pod whose record can't be read, or takes long, is not inspected since the first attempt, until one succeeds.
func TestUninspected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := new(recordReader)
		r, _, stop := runRecorder(t, reader, map[types.UID]*pleg.Pod{"a": {UID: "a"}})
		begin := time.Now()
		expect := func(when string, want map[types.UID]time.Time) {
			t.Helper()
			if got := r.Uninspected(); !maps.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", when, got, want)
			}
		}
		reader.set(0, errors.New("no answer"))
		r.Request("a")
		pass(time.Second)
		expect("after a failure", map[types.UID]time.Time{"a": begin})
		pass(time.Hour)
		expect("an hour later", map[types.UID]time.Time{"a": begin})
		reader.set(1, nil)
		pass(2 * recordRetry)
		expect("after a success", map[types.UID]time.Time{})
		r.Request("a")
		pass(time.Minute)
		expect("after another", map[types.UID]time.Time{})
		stop()
	})
}

func TestUninspectedWhileItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, stop := runRecorder(t, new(hanging), map[types.UID]*pleg.Pod{"a": {UID: "a", Containers: []pleg.Container{{ID: "hangs"}}}})
		begin := time.Now()
		r.Request("a")
		pass(pleg.UninspectedAfter)
		if got := r.Uninspected(); len(got) > 0 {
			t.Errorf("after %v: %v", pleg.UninspectedAfter, got)
		}
		pass(time.Second)
		if got := r.Uninspected(); !got["a"].Equal(begin) {
			t.Errorf("after a second more: %v, want since %v", got, begin)
		}
		stop()
	})
}

// A receiver that is late says nothing about the runtime.
func TestInspectedWhileNobodyReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Reader: new(recordReader), Pod: func(uid types.UID) (*pleg.Pod, bool) { return &pleg.Pod{UID: uid}, true }})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		r.Request("a")
		pass(time.Minute)
		if got := r.Uninspected(); len(got) > 0 {
			t.Errorf("the runtime has answered, and %v are not inspected", got)
		}
		cancel()
		<-done
	})
}
