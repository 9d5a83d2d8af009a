package view

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// slowStore stores a set when answer is called.
type slowStore struct{ waiting []func(journal.Commit) }

func (s *slowStore) Begin(*journal.Table) {}

func (s *slowStore) Append(set *journal.Set, show func(journal.Commit)) {
	s.waiting = append(s.waiting, show)
}

func (s *slowStore) answer(j *journal.Journal) {
	for _, show := range s.waiting {
		show(journal.Commit{Instance: j.Instance(), Stored: true})
	}
	s.waiting = nil
}

// The rules are replaced at once while the store does not answer. What a client reads then is by the new rules,
// and may cost it one reset more.
func TestRulesAreReplacedWhileTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(slowStore)
		j := newJournal(journal.Options{Store: s})
		g := j.gate(rule(t, access.Full, "image=seen"))
		appendSet(j, update(config.ADD, "a=seen", "b=hidden"))
		s.answer(j.Journal)
		c := j.through(t, g, StreamOptions{})
		want(t, c.taken(t), "- ADD a=seen", "3 BOOKMARK synced ready")
		appendSet(j, update(config.ADD, "c=seen", "d=hidden"))

		start := time.Now()
		before := g.SetPolicy(access.NewPolicy([]access.Rule{rule(t, access.Full, "image=hidden")}))
		if took := time.Since(start); took != 0 {
			t.Errorf("SetPolicy took %v", took)
		}
		if before < j.Revision()+2 {
			t.Errorf("the rules before are said to have been read up to revision %d, and the update has %d", before-j.first, j.Revision()+2-j.first)
		}
		want(t, c.taken(t), "- BOOKMARK reset ready", "- ADD b=hidden", "3 BOOKMARK synced ready")
		between := j.Revision()
		s.answer(j.Journal)
		want(t, c.taken(t), "5 ADD d=hidden")
		resume := func(since int64) string { return j.through(t, g, StreamOptions{Since: &since}).taken(t) }
		want(t, resume(between), "- BOOKMARK reset ready", "- ADD b=hidden d=hidden", "6 BOOKMARK synced ready")
		want(t, resume(j.Revision()))
	})
}
