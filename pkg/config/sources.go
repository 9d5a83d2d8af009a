package config

// SourcesReady reports whether every source has been seen. A source has been seen when its
// first set was merged and the updates of that set were handled. The handler of the updates
// implements it.
//
// kubelet: pkg/kubelet/config/sources.go SourcesReady.
type SourcesReady interface {
	AllReady() bool
}
