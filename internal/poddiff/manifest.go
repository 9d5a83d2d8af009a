package poddiff

import (
	"bytes"

	"github.com/rogpeppe/go-internal/diff"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// Unified returns the unified diff of the manifests of two versions of a pod. One version can be nil.
func Unified(before, after *v1.Pod) (string, error) {
	was, old, err := named(before)
	if err != nil {
		return "", err
	}
	is, changed, err := named(after)
	if err != nil {
		return "", err
	}
	_, lines, _ := bytes.Cut(diff.Diff(was, old, is, changed), []byte("\n")) // without the line "diff a b"
	return string(lines), nil
}

func named(pod *v1.Pod) (name string, manifest []byte, err error) {
	if pod == nil {
		return "/dev/null", nil, nil
	}
	manifest, err = Manifest(pod)
	return pod.Namespace + "/" + pod.Name, manifest, err
}

// Manifest returns a pod as YAML, without the managed fields and the annotations that podconfigd adds.
func Manifest(pod *v1.Pod) ([]byte, error) {
	shown := *pod
	shown.ManagedFields = nil
	shown.Annotations = writtenAnnotations(pod)
	return printable.YAML(&shown)
}
