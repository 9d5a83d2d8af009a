package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/pkg/access"
)

// After a start with other rules than those of the last run, it is known that they are others.
func TestRulesOfTheLastRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := openState(stateIn(dir), "node1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	some, others := access.NewPolicy([]access.Rule{{View: access.Full}}), access.NewPolicy([]access.Rule{{UIDs: []uint32{1}, View: access.Full}})
	rules := s.servedRules()
	expect := func(want *access.Policy, until int64) {
		t.Helper()
		for _, p := range []*access.Policy{nil, some, others} {
			revision := int64(100)
			if p == want {
				revision = until
			}
			if is := rules.others(p, 100); is != revision {
				t.Errorf("%q: %d, want %d", p.Fingerprint(), is, revision)
			}
		}
	}
	set := func(p *access.Policy, until int64) {
		t.Helper()
		if err := rules.set(p, until); err != nil {
			t.Fatal(err)
		}
		expect(p, until)
	}
	expect(nil, 0)
	set(some, 0)
	set(others, 7)
	set(nil, 8) // some revisions are still by the rules before
	set(nil, 0)
	if _, err := os.Stat(filepath.Join(dir, "access-rules")); !os.IsNotExist(err) {
		t.Errorf("without rules, there is a file: %v", err)
	}
	set(nil, 0)
	if err := rules.replacing(); err != nil {
		t.Fatal(err)
	}
	expect(nil, 100)
	expect(some, 100)
	none := (&state{}).servedRules()
	if none.others(some, 100) != 0 || none.set(some, 1) != nil {
		t.Error("without a state directory, there is something to resume")
	}
}

// A link where the file is written first is not followed.
func TestRulesAreNotWrittenThroughALink(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	rules := servedRules{filepath.Join(dir, accessRulesName)}
	if err := errors.Join(os.WriteFile(other, []byte("precious"), 0o600), os.Symlink(other, rules.path+smallfile.NewSuffix)); err != nil {
		t.Fatal(err)
	}
	if err := rules.replacing(); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != "precious" {
		t.Errorf("the file behind the link has %q now, %v", data, err)
	}
	if data, err := os.ReadFile(rules.path); err != nil || string(data) != "unknown\n" {
		t.Errorf("got %q, %v", data, err)
	}
}
