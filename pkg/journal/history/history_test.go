package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

func version(labels map[string]string, file config.File) *journal.Pod {
	return &journal.Pod{File: &file, Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1", Labels: labels}}}
}

// Who may write to the file is as important as what is in it.
func TestChangesOfTheFile(t *testing.T) {
	r := &store.Record{
		Revision: 5, Update: 6, Op: config.UPDATE, Source: config.FileSource,
		Before: version(map[string]string{"a": "1"}, config.File{Path: "/m/a.yaml", Mode: 0o644}),
		Pod:    version(map[string]string{"a": "2"}, config.File{Path: "/m/b\xff.yaml", UID: 1000, GID: 4294967295, Mode: 0o7}),
	}
	want := &v1alpha1.HistoryRecord{
		Revision: 5, UpdateRevision: 6, Op: v1alpha1.OpUpdate, Source: "file", Namespace: "default", Name: "web", UID: "1",
		File: &v1alpha1.HistoryFile{Path: "/m/b\uFFFD.yaml", UID: 1000, GID: 4294967295, Mode: "0007"},
		Changes: []string{
			"file.path: /m/a.yaml → /m/b\uFFFD.yaml", "file.owner: 0:0 → 1000:4294967295", "file.mode: 0644 → 0007",
			"metadata.labels.a: 1 → 2",
		},
	}
	if diff := cmp.Diff(want, record(r, false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.Revision, r.Op, r.Pod, r.Replaced = 6, config.REMOVE, r.Before, true
	want = &v1alpha1.HistoryRecord{
		Revision: 6, Op: v1alpha1.OpRemove, Source: "file", Namespace: "default", Name: "web", UID: "1", Replaced: true,
		File: &v1alpha1.HistoryFile{Path: "/m/a.yaml", Mode: "0644"},
	}
	if diff := cmp.Diff(want, record(r, false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheNumberOfChangesIsLimited(t *testing.T) {
	none, labels := map[string]string{"a": ""}, map[string]string{"a": ""}
	for i := range 60 {
		labels[fmt.Sprintf("l%02d", i)] = "x"
	}
	got := changes(version(none, config.File{}).Object, version(labels, config.File{}).Object, nil, nil)
	if len(got) != 51 || got[49] != "metadata.labels.l49: (none) → x" || got[50] != "and 10 more" {
		t.Errorf("%d: %q", len(got), got)
	}
}

func TestParse(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                          {},
		"10m":                       now.Add(-10 * time.Minute),
		"1ns":                       now.Add(-1),
		"2562047h":                  now.Add(-2562047 * time.Hour),
		"2026-11-22T11:00:00Z":      now.Add(-time.Hour),
		"2026-11-22T11:00:00.5Z":    now.Add(-time.Hour + time.Second/2),
		"2026-11-22T13:00:00+02:00": now.Add(-time.Hour),
	} {
		t.Run("since "+text, func(t *testing.T) {
			if got, err := ParseSince(text, now); err != nil || !got.Equal(want) {
				t.Errorf("%q: %v, %v, want %v", text, got, err, want)
			}
		})
	}
	for _, text := range []string{"0s", "-1m", "10", "2562048h", "1e308", "yesterday", "2026-11-22", "2026-11-22T11:00:00"} {
		if got, err := ParseSince(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	if got, err := ParsePod("kube-system/etcd.n1"); err != nil || got != (types.NamespacedName{Namespace: "kube-system", Name: "etcd.n1"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"a", "a/", "/a", "a/b/c", "A/b", "a/b\n", "/"} {
		if got, err := ParsePod(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
