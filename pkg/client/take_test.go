package client

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// A reset within an update voids the earlier pieces. They are not returned, because a
// part of a SET would look like all pods.
func TestAResetVoidsABegunUpdate(t *testing.T) {
	s := &subscription{instance: "i", since: 7}
	var handed []*v1alpha1.Update
	yield := func(u *v1alpha1.Update) bool { handed = append(handed, u); return true }
	for _, u := range []*v1alpha1.Update{
		{Instance: "i", Op: v1alpha1.OpSet, Continues: true},
		{Instance: "i", Op: v1alpha1.OpBookmark, Reset: true},
		{Instance: "i", Op: v1alpha1.OpSet},
		{Instance: "i", Op: v1alpha1.OpBookmark, InitialSyncComplete: true, Revision: 9},
	} {
		if !s.deliver(u, yield) {
			t.Fatal("take ended the stream")
		}
	}
	if len(handed) != 3 || !handed[0].Reset || handed[1].Op != v1alpha1.OpSet || s.since != 9 {
		t.Errorf("handed on: %d updates, the first %+v; since %d", len(handed), handed[0], s.since)
	}
}

// The caller forgets all pods at a reset. If the connection ends before it has them again, a stream that is resumed from the position
// of before would not have them.
func TestAResetVoidsThePosition(t *testing.T) {
	s := &subscription{instance: "i", since: 7}
	s.deliver(&v1alpha1.Update{Instance: "i", Op: v1alpha1.OpBookmark, Reset: true}, func(*v1alpha1.Update) bool { return true })
	if query := s.query(); query.Has("since") || query.Has("instance") {
		t.Errorf("the next connection has the parameters %s", query.Encode())
	}
}

// If some pieces of an update have restored pods, the update has.
func TestRestoredPiecesAreARestoredUpdate(t *testing.T) {
	for _, restored := range [][]bool{{true, false}, {false, true}} {
		s := &subscription{}
		var handed []*v1alpha1.Update
		for i, r := range restored {
			s.deliver(&v1alpha1.Update{Op: v1alpha1.OpSet, Restored: r, Continues: i == 0}, func(u *v1alpha1.Update) bool {
				handed = append(handed, u)
				return true
			})
		}
		if len(handed) != 1 || !handed[0].Restored {
			t.Errorf("%v: %+v", restored, handed)
		}
	}
}

// The metadata of a namespace that comes between the pieces of an update does not end it: a part of a SET would look like all pods.
func TestMetadataWithinAnUpdate(t *testing.T) {
	s := &subscription{}
	var got []v1alpha1.Op
	pods := 0
	for _, u := range []*v1alpha1.Update{
		{Op: v1alpha1.OpSet, Continues: true, Pods: make([]*v1.Pod, 1)},
		{Op: v1alpha1.OpMetadata, Namespaces: map[string]*v1alpha1.Metadata{"shop": {}}},
		{Op: v1alpha1.OpSet, Pods: make([]*v1.Pod, 1)},
	} {
		s.deliver(u, func(u *v1alpha1.Update) bool {
			got, pods = append(got, u.Op), len(u.Pods)
			return true
		})
	}
	if !slices.Equal(got, []v1alpha1.Op{v1alpha1.OpMetadata, v1alpha1.OpSet}) || pods != 2 {
		t.Errorf("got %v, the last with %d pods", got, pods)
	}
}
