package daemon

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// starting says that it runs.
type starting struct {
	name   string
	starts chan string
}

func (s *starting) Run(ctx context.Context, _ chan<- config.SourceSet) error {
	s.starts <- s.name
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *starting) Status() v1alpha1.SourceStatus { return v1alpha1.SourceStatus{} }

// The apiserver may say which kubelet it is before the first manifest is read.
func TestManifestsWaitForTheKubelet(t *testing.T) {
	starts := make(chan string, 3)
	r := newRunner(opener{}, nil, config.NewPodConfig())
	for _, name := range []string{config.FileSource, config.ApiserverSource, config.HTTPSource} {
		r.put(name, &source{Source: &starting{name: name, starts: starts}, spec: sourceSpec{name: name}, ended: make(chan struct{})})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, asked := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- r.run(ctx, func(context.Context) {
			defer close(asked)
			if first := <-starts; first != config.ApiserverSource || len(starts) > 0 {
				t.Errorf("%s has started, and %d more", first, len(starts))
			}
		})
	}()
	<-asked
	others := []string{<-starts, <-starts}
	slices.Sort(others)
	if !slices.Equal(others, []string{config.FileSource, config.HTTPSource}) {
		t.Errorf("then %v started", others)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
