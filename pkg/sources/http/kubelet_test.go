package http

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// When the version of the kubelet changes, the URL is read at once, and its pods get the UIDs of that
// version.
func TestKubeletVersion(t *testing.T) {
	s := newSite(t, false)
	const body = `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"1"}]}}]}`
	s.serve(body)
	decoder := manifest.NewDecoder("node1")
	h := run(t, Options{URL: s.URL, Decoder: decoder, Period: time.Hour})
	expect := func(m manifest.Minor, pods []*v1.Pod) {
		t.Helper()
		items, err := decoder.For(m).DecodeURL(s.URL, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		for item := range items {
			if pods[0].UID != item.Pod.UID {
				t.Errorf("UID %s, want %s", pods[0].UID, item.Pod.UID)
			}
		}
	}
	expect(manifest.Base, h.expect("a=1"))
	for _, m := range []manifest.Minor{34, 36} {
		decoder.Use(m)
		expect(m, h.expect("a=1"))
	}
}
