package http

import (
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// What the kubelet ignores in a pod is a warning in the verdict, as long as the pod is
// served, and in the log.
func TestWarningsOnItems(t *testing.T) {
	const warning = "spec.containers[0].imagePullPolcy: unknown field, ignored; did you mean imagePullPolicy?"
	s := newSite(t, false)
	s.serve(list(strings.Replace(item("a", "1"), `"image":`, `"imagePullPolcy":"Always","image":`, 1)))
	var log logged
	h := runWith(t, log.context(), Options{URL: s.URL})
	h.expect("a=1")
	h.await("the warning", func(s v1alpha1.SourceStatus) bool {
		return len(s.HTTP.Manifests) == 1 && len(s.HTTP.Manifests[0].Warnings) == 1 && s.HTTP.Manifests[0].Warnings[0] == warning
	})
	if lines, _ := log.read("Manifest accepted with warnings"); len(lines) != 1 || !strings.Contains(lines[0], warning) {
		t.Errorf("logged %q", lines)
	}
	s.serve(list(item("a", "1")))
	h.await("no warning", func(s v1alpha1.SourceStatus) bool { return len(s.HTTP.Manifests[0].Warnings) == 0 })
}

// A kubelet reads the first YAML document of an answer. That there are others is a warning on its first pod.
func TestSeveralDocuments(t *testing.T) {
	pods := map[string][]string{"a pod": {"a=1"}, "a list": {"a=1", "b=1"}}
	for name, first := range map[string]string{
		"a pod":  single("a", "1"),
		"a list": list(item("a", "1"), item("b", "1")),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, false)
			s.serve("# YAML\n" + first + "\n---\n" + list(item("c", "1")) + "\n")
			h := runWith(t, t.Context(), Options{URL: s.URL})
			h.expect(pods[name]...)
			h.await(name, func(s v1alpha1.SourceStatus) bool {
				return len(s.HTTP.Manifests) > 0 && len(s.HTTP.Manifests[0].Warnings) == 1 &&
					s.HTTP.Manifests[0].Warnings[0] == "1 more YAML document(s) after the first are ignored, as the kubelet does: serve a PodList"
			})
		})
	}
}
