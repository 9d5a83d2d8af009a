package watch

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

func TestTheTableSaysWhatChanged(t *testing.T) {
	var out bytes.Buffer
	p := newTablePrinter(&out)
	at := time.Date(2026, 11, 21, 1, 2, 3, 4e6, time.Local)
	pod := func(uid, image string) []*v1.Pod {
		return []*v1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID(uid)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
		}}
	}
	ready, notReady := true, false
	for _, u := range []*v1alpha1.Update{
		{Op: v1alpha1.OpBookmark, InitialSyncComplete: true, Ready: &notReady, Revision: 1, Sources: map[string]v1alpha1.SourceState{"file": {}, "http": {}}},
		{Op: v1alpha1.OpAdd, Source: "file", Pods: pod("1", "i:1")},
		{Time: &at, Op: v1alpha1.OpUpdate, Source: "file", Pods: pod("1", "i:2")},
		{Time: &at, Op: v1alpha1.OpRemove, Source: "file", Pods: pod("1", "i:2")},
		{Time: &at, Op: v1alpha1.OpAdd, Source: "file", Pods: pod("2", "i:3")},
		{Op: v1alpha1.OpAdd, Source: "http", Restored: true, Pods: pod("3", "i:9")},
		{Op: v1alpha1.OpBookmark, Ready: &notReady, Revision: 8, Sources: map[string]v1alpha1.SourceState{"api": {}, "file": {Seen: true}, "http": {Restored: true}}},
		{Op: v1alpha1.OpAdd, Source: "http"},
		{Op: v1alpha1.OpBookmark, Ready: &ready, Revision: 9},
		{Op: v1alpha1.OpHousekeeping, Pods: pod("9", "")},
		{Op: v1alpha1.OpBookmark, Reset: true, Message: "because"},
	} {
		if err := p.print(u); err != nil {
			t.Fatal(err)
		}
	}
	want := `TIME          OP            SOURCE  POD                                   CHANGED
-             BOOKMARK      -       -                                     initial sync complete; waiting for sources: file, http; revision 1
-             ADD           file    default/web                           i:1
01:02:03.004  UPDATE        file    default/web                           spec.containers[c].image: i:1 → i:2
01:02:03.004  REMOVE        file    default/web
01:02:03.004  ADD           file    default/web                           recreated: spec.containers[c].image: i:2 → i:3
-             ADD           http    default/web                           i:9 (restored)
-             BOOKMARK      -       -                                     waiting for sources: api, http (restored); revision 8
-             ADD           http    -                                     no pods
-             BOOKMARK      -       -                                     all sources ready; revision 9
-             HOUSEKEEPING  -       default/web                           not in any source
-             BOOKMARK      -       -                                     reset: because
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An image can contain anything. It must not reach the terminal unescaped.
func TestControlCharactersInTheTableAreEscaped(t *testing.T) {
	var out bytes.Buffer
	table := newTablePrinter(&out)
	table.headed = true
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Image: "i\r\n"}}}}
	pod.Namespace, pod.Name = "default", "web"
	if err := table.print(&v1alpha1.Update{Op: v1alpha1.OpAdd, Source: "file", Pods: []*v1.Pod{pod}}); err != nil {
		t.Fatal(err)
	}
	if want := `-             ADD           file    default/web                           i\r\n` + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
