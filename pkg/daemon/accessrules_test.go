package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/access"
)

// After a start with other rules than those of the last run, it is known that they are others.
func TestRulesOfTheLastRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := openState(&Config{StateDir: dir}, "node1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	some, others := access.NewPolicy([]access.Rule{{View: access.Full}}), access.NewPolicy([]access.Rule{{UIDs: []uint32{1}, View: access.Full}})
	expect := func(want *access.Policy) {
		t.Helper()
		for _, p := range []*access.Policy{nil, some, others} {
			if is := s.servedRules().are(p); is != (p == want) {
				t.Errorf("%q: %v", p.Fingerprint(), is)
			}
		}
	}
	set := func(fingerprint string) {
		t.Helper()
		if err := s.servedRules().set(fingerprint); err != nil {
			t.Fatal(err)
		}
	}
	expect(nil)
	set(some.Fingerprint())
	expect(some)
	set(others.Fingerprint())
	expect(others)
	set("")
	expect(nil)
	if _, err := os.Stat(filepath.Join(dir, "access-rules")); !os.IsNotExist(err) {
		t.Errorf("without rules, there is a file: %v", err)
	}
	set("")
	set(unknown) // while rules are replaced
	for _, p := range []*access.Policy{nil, some, others} {
		if s.servedRules().are(p) {
			t.Errorf("%q are taken for those that are not known", p.Fingerprint())
		}
	}
	if !(&state{}).servedRules().are(some) || (&state{}).servedRules().set("x") != nil {
		t.Error("without a state directory, there is something to resume")
	}
}
