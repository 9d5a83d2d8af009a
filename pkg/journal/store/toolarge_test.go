package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Of a pod that does not fit in a frame, the name is stored, and other pods are stored. Until it is gone, a
// start begins a new instance without it, whose source has to deliver everything again.
func TestAPodThatIsTooLarge(t *testing.T) {
	testutil.Exhaustive(t)
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		p, recovered := start(t, options(fs))
		revision := recovered.Reserved
		set := func(op config.PodOperation, objects ...*v1.Pod) *journal.Set {
			u := &journal.Update{First: revision + 1, Op: op, Source: "http"}
			for _, object := range objects {
				revision++
				u.Pods = append(u.Pods, journal.NewStored("http", object, nil, revision, nil))
			}
			u.Revision = revision
			return &journal.Set{First: u.First, Revision: revision, Time: time.Now(), Updates: []*journal.Update{u},
				Sources: []journal.Source{{Name: "http", Seen: true, Attributes: map[string]string{"etag": "1"}}}}
		}
		pod := func(name string, size int) *v1.Pod {
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{"a": strings.Repeat("x", size)},
			}}
		}
		restart := func() {
			p.end()
			p, recovered = start(t, options(fs))
		}
		names := func() (all []string) {
			for key := range final(recovered) {
				all = append(all, string(key.uid))
			}
			slices.Sort(all)
			return all
		}

		large := pod("large", maxFrame)
		if c := p.append(set(config.ADD, pod("small", 1), large, pod("other", 1))); !c.Stored {
			t.Errorf("the set is not stored")
		}
		if got := fmt.Sprint(p.log.Status().TooLarge, p.log.Status().Err); got != "[default/large] <nil>" {
			t.Errorf("status %s", got)
		}
		restart()
		if recovered.Resumed || recovered.Reason != "pod default/large was too large to be stored" || len(recovered.Problems) > 0 {
			t.Errorf("resumed %t, because %q, problems %v", recovered.Resumed, recovered.Reason, recovered.Problems)
		}
		if got := fmt.Sprint(names(), recovered.Sources["http"].Attributes, recovered.Sources["http"].Seen); got != "[other small] map[] true" {
			t.Errorf("restored %s", got)
		}

		revision = recovered.Reserved
		p.append(set(config.ADD, large))
		p.append(set(config.UPDATE, pod("large", maxPod-1000))) // the largest that fits
		if got := p.log.Status().TooLarge; len(got) > 0 {
			t.Errorf("%v is still too large", got)
		}
		restart()
		if got := fmt.Sprint(recovered.Resumed, names()); got != "true [large other small]" {
			t.Errorf("restored %s, because %q, problems %v", got, recovered.Reason, recovered.Problems)
		}
		p.end()
	})
}

// The object and the status of a pod count together.
func TestAStatusThatIsTooLarge(t *testing.T) {
	testutil.Exhaustive(t)
	object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a", Annotations: map[string]string{"a": strings.Repeat("x", maxPod/4)}}}
	p := &journal.Pod{Revision: 1, Object: object, Merged: object}
	for length, fits := range map[int]bool{maxPod / 2: true, maxPod: false} {
		p.Status = &v1.PodStatus{Message: strings.Repeat("x", length)}
		set := &journal.Set{First: 1, Revision: 1, Time: time.Unix(1, 0), Updates: []*journal.Update{{Revision: 1, Op: config.ADD, Source: "file", Pods: []*journal.Pod{p}}}}
		frames, tooLarge, err := encodeSet(set, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := decodeSets(t, frames)[0].Updates[0].Pods[0]; got.TooLarge == fits || tooLarge[p] == fits {
			t.Errorf("a status of %d bytes: too large %t", length, got.TooLarge)
		}
	}
}

// A set with very many names continues in other frames.
func TestASetWithManyNames(t *testing.T) {
	testutil.Exhaustive(t)
	set := &journal.Set{First: 1, Revision: 1, Time: time.Unix(1, 0)}
	for i := range 100_000 {
		p := journal.NewPod("file", &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}})
		set.Names = append(set.Names, journal.Change{Revision: 1, After: p.At(1)})
	}
	frames, _, err := encodeSet(set, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := decodeSets(t, frames)
	if len(got) != 1 || len(got[0].Names) != len(set.Names) {
		t.Fatalf("%d sets came back", len(got))
	}
	if first := frames[:frameHead]; int(first[0])|int(first[1])<<8|int(first[2])<<16|int(first[3])<<24 > 2*pieceBytes {
		t.Error("all names are in one frame")
	}
}

// No frame is made that a reader refuses.
func TestAFrameThatIsTooLarge(t *testing.T) {
	testutil.Exhaustive(t)
	for size, fits := range map[int]bool{maxFrame - 1: true, maxFrame: false} {
		if err := endFrame(append(beginFrame(nil, kindPods), make([]byte, size)...), 0); (err == nil) != fits {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Of the files that are set aside for a reason, the newest ones are kept.
func TestFilesThatAreSetAside(t *testing.T) {
	fs := newMemFS()
	fs.dirs["/d"] = true
	for n := range uint64(10) {
		for _, label := range []string{"damaged", "newer"} {
			name := segmentName(2*n + 1)
			if label == "newer" {
				name = segmentName(2*n + 2)
			}
			fs.files["/d/"+name] = new([]byte)
			if _, err := setAside(fs, "/d", name, label, time.Unix(-int64(n), 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(fs.files) != 2*maxAside || fs.files["/d/"+segmentName(19)+".damaged-19691231T235951Z"] == nil {
		t.Errorf("%d files are left", len(fs.files))
	}
}
