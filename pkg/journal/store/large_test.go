package store

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A pod may have any size, and also its status. It is in a frame of its own, and comes back whole.
func TestAVeryLargePod(t *testing.T) {
	testutil.Exhaustive(t)
	const size = 80 << 20
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		p, recovered := start(t, options(fs))
		first := recovered.Reserved + 1
		u := &journal.Update{First: first, Op: config.ADD, Source: "http", Revision: first + 2}
		for i, length := range []int{1, size, 1} {
			object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Annotations: map[string]string{"a": strings.Repeat("x", length)},
			}}
			status := &v1.PodStatus{Message: strings.Repeat("y", length)}
			u.Pods = append(u.Pods, journal.NewStored("http", object, status, first+int64(i), nil))
		}
		if c := p.append(&journal.Set{First: first, Revision: u.Revision, Time: time.Now(), Updates: []*journal.Update{u}}); !c.Stored {
			t.Error("the set is not stored")
		}
		for _, stage := range []string{"of the set", "of the snapshot"} {
			p.end()
			p, recovered = start(t, options(fs))
			for i, want := range u.Pods {
				got := final(recovered)[keyOf(want)]
				if !recovered.Resumed || got.Pod == nil || !reflect.DeepEqual(got.Object, want.Object) {
					t.Errorf("%s, resumed %t because %q: pod %d is another one", stage, recovered.Resumed, recovered.Reason, i)
				}
			}
		}
		p.end()
	})
}

// A set with very many names continues in other frames.
func TestASetWithManyNames(t *testing.T) {
	testutil.Exhaustive(t)
	set := &journal.Set{First: 1, Revision: 1, Time: time.Unix(1, 0)}
	for i := range 100_000 {
		p := journal.NewPod("file", &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}})
		set.Names = append(set.Names, journal.Change{Revision: 1, After: p.At(1)})
	}
	frames, err := encodeSet(set, 0)
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
