package http

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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

// evidence has one pod, which a kubelet runs. It makes the decoder use the rules of the kubelet, and counts the
// pods that are decoded.
type evidence struct {
	decoder *manifest.Decoder
	running types.UID
	decoded atomic.Int32
}

func (e *evidence) Decoded(name types.NamespacedName, _ string, _ types.UID, _ time.Duration) types.UID {
	e.decoded.Add(1)
	if name.Name == "pod-00-node1" {
		return e.running
	}
	return ""
}

func (e *evidence) Identified(_ types.NamespacedName, _ types.UID, by manifest.Minor) bool {
	e.decoder.Use(by)
	return false
}

// If an item shows another version of the kubelet, the other items are decoded only by the rules of that version.
func TestKubeletFoundByTheFirstItem(t *testing.T) {
	const n = 50
	var items, want []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"pod-%02d"},"spec":{"containers":[{"name":"c","image":"1"}]}}`, i))
		want = append(want, fmt.Sprintf("pod-%02d=1", i))
	}
	body := `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
	s := newSite(t, false)
	s.serve(body)
	e := &evidence{decoder: manifest.NewDecoder("node1")}
	theirs, err := e.decoder.For(34).DecodeURL(s.URL, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for item := range theirs {
		e.running = item.Pod.UID
		break
	}
	e.decoder.Compare(e)
	h := run(t, Options{URL: s.URL, Decoder: e.decoder, Period: time.Hour})
	if pods := h.expect(want...); e.decoder.Minor() != 34 || len(pods) != n {
		t.Errorf("%d pods by the rules of %v", len(pods), e.decoder.Minor())
	}
	if got := e.decoded.Load(); got != n+1 {
		t.Errorf("%d pods were decoded, want %d", got, n+1)
	}
}
