package config

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// SourcesReadyFn reports whether all sources are in sourcesSeen.
type SourcesReadyFn func(sourcesSeen sets.Set[string]) bool

// SourcesReady tracks the sources from which the caller has received an update.
//
// kubelet: pkg/kubelet/config/sources.go.
type SourcesReady interface {
	// AddSource marks the source as seen.
	AddSource(source string)
	// AllReady reports whether every configured source has been seen.
	AllReady() bool
}

// NewSourcesReady returns a SourcesReady that uses fn, usually
// [PodConfig.SeenAllSources]. It is safe for concurrent use.
func NewSourcesReady(fn SourcesReadyFn) SourcesReady {
	return &sourcesImpl{seen: sets.New[string](), ready: fn}
}

type sourcesImpl struct {
	mu    sync.Mutex
	seen  sets.Set[string]
	ready SourcesReadyFn
}

func (s *sourcesImpl) AddSource(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Insert(source)
}

func (s *sourcesImpl) AllReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready(s.seen)
}
