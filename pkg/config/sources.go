package config

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// SourcesReadyFn tells whether all sources are among those seen.
type SourcesReadyFn func(sourcesSeen sets.Set[string]) bool

// SourcesReady tracks which sources a reader of the updates has seen.
//
// kubelet: pkg/kubelet/config/sources.go.
type SourcesReady interface {
	// AddSource marks the source as seen.
	AddSource(source string)
	// AllReady tells whether every configured source has been seen.
	AllReady() bool
}

// NewSourcesReady returns a SourcesReady over the function, as a rule
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
