package config

// SourcesReady reports whether every source has been seen: its first set was merged, and
// the updates of that set were handled. Whoever handles the updates of a [PodConfig] knows.
//
// kubelet: pkg/kubelet/config/sources.go SourcesReady.
type SourcesReady interface {
	AllReady() bool
}
