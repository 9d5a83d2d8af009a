package daemon

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/calls"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// runner runs the sources. A reload changes them while it runs.
type runner struct {
	opener
	registry  prometheus.Registerer
	podConfig *config.PodConfig
	// calls are requests for the goroutine of run.
	calls *calls.Mailbox

	// group has the running sources. It belongs to the goroutine of run.
	group *errgroup.Group

	// mu guards all. Only the goroutine of run changes it.
	mu  sync.Mutex
	all map[string]*source
}

// source is a source with its metrics.
type source struct {
	sources.Source
	spec    sourceSpec
	metrics *prometheus.Registry
	// stop ends Run. ended is closed when it has returned.
	stop  context.CancelCauseFunc
	ended chan struct{}
}

// errSourceChanged is the cause of the end of a source that is removed or replaced.
var errSourceChanged = errors.New("the configuration of the source changed")

func newRunner(o opener, registry prometheus.Registerer, podConfig *config.PodConfig) *runner {
	return &runner{
		opener: o, registry: registry, podConfig: podConfig,
		calls: calls.New(), all: make(map[string]*source),
	}
}

// open makes a source that is not running. restored is its last set.
func (r *runner) open(spec sourceSpec, restored sources.Restored) (*source, error) {
	s := &source{spec: spec, metrics: prometheus.NewRegistry(), ended: make(chan struct{})}
	var err error
	if s.Source, err = r.opener.open(spec, s.metrics, restored); err != nil {
		return nil, &FieldError{Field: spec.field, format: "%w", args: []any{spec.named(err)}}
	}
	registerHeld(s.metrics, r.podConfig, spec.name)
	return s, r.metricsOf(spec.name).Register(s.metrics)
}

// metricsOf returns the registerer for the metrics of a source. They have its name as a label.
func (r *runner) metricsOf(name string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"source": name}, r.registry)
}

func (r *runner) put(name string, s *source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s == nil {
		delete(r.all, name)
	} else {
		r.all[name] = s
	}
}

// status returns the status of the source.
func (r *runner) status(name string) (v1alpha1.SourceStatus, bool) {
	r.mu.Lock()
	s := r.all[name]
	r.mu.Unlock()
	if s == nil {
		return v1alpha1.SourceStatus{}, false
	}
	return s.Status(), true
}

// statuses returns the status of all sources, by name.
func (r *runner) statuses() []v1alpha1.SourceStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]v1alpha1.SourceStatus, 0, len(r.all))
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		all = append(all, r.all[name].Status())
	}
	return all
}

// run runs the sources until the context is done or one fails. The source of the apiserver starts first. Sources of
// manifests start after ask has returned, so that their first sets have the UIDs of the kubelet.
func (r *runner) run(ctx context.Context, ask func(context.Context)) error {
	defer r.calls.Close()
	group, ctx := errgroup.WithContext(ctx)
	r.group = group
	start := func(ofAPI bool) {
		for name, s := range r.all {
			if (name == config.ApiserverSource) == ofAPI {
				r.start(ctx, s)
			}
		}
	}
	start(true)
	ask(ctx)
	start(false)
	for {
		select {
		case <-ctx.Done():
			return group.Wait()
		case call := <-r.calls.Calls():
			call(ctx)
		}
	}
}

func (r *runner) start(ctx context.Context, s *source) {
	sets := r.podConfig.Channel(s.spec.name)
	running, stop := context.WithCancelCause(ctx)
	s.stop = stop
	r.group.Go(func() error {
		defer close(s.ended)
		defer stop(nil)
		err := s.Run(running, sets)
		if errors.Is(context.Cause(running), errSourceChanged) && ctx.Err() == nil {
			return nil
		}
		return err
	})
}

// endSource ends the source and its metrics.
func (r *runner) endSource(s *source) {
	s.stop(errSourceChanged)
	<-s.ended
	r.metricsOf(s.spec.name).Unregister(s.metrics)
}

// call makes the goroutine of run call the function, and waits for it. It waits for the start
// of run.
func (r *runner) call(ctx context.Context, do func(context.Context) error) error {
	err := r.calls.Do(ctx, do)
	if errors.Is(err, calls.ErrClosed) {
		return ErrNotRunning
	}
	return err
}

// retire ends the sources that are not in specs, and removes their pods. It also ends each source whose configuration
// changed. The pods of such a source stay until the first set of its successor, and sets that are not merged yet are
// dropped.
//
// retire adds new sources first, as sources that are not seen. So the pods of a source that gets another name
// are no orphans in between. retire and begin are called in the goroutine of run.
func (r *runner) retire(ctx context.Context, specs []sourceSpec) error {
	for _, spec := range specs {
		if r.all[spec.name] == nil {
			if err := r.podConfig.AddSource(ctx, spec.name); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		i := slices.IndexFunc(specs, func(s sourceSpec) bool { return s.name == name })
		if i >= 0 && r.runs(specs[i]) {
			continue
		}
		r.endSource(r.all[name])
		drop := r.podConfig.DropSets
		if i < 0 {
			r.put(name, nil)
			drop = r.podConfig.RemoveSource
		}
		if err := drop(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the sources that retire added, and the successors of the sources that it ended because they changed.
func (r *runner) begin(ctx context.Context, specs []sourceSpec) error {
	for _, spec := range specs {
		if r.runs(spec) {
			continue
		}
		var last sources.Restored
		if old := r.all[spec.name]; old != nil {
			if before, is := old.Source.(sources.Predecessor); is {
				last = before.Last()
			}
		}
		s, err := r.open(spec, last)
		if err != nil {
			return err
		}
		r.put(spec.name, s)
		r.start(ctx, s)
	}
	return nil
}

// runs reports whether the source runs with this configuration.
func (r *runner) runs(spec sourceSpec) bool {
	s := r.all[spec.name]
	return s != nil && reflect.DeepEqual(s.spec.options, spec.options)
}
