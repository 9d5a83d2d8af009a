package conn

import (
	"strings"
	"testing"
)

func TestCounterCountsByProcess(t *testing.T) {
	c := Counter{what: "places", all: 5, each: 2}
	process, outside, other := Peer{known: true, pid: 7}, Peer{known: true, uid: 1}, Peer{known: true, uid: 2}
	var releases []func()
	take := func(p Peer, want string) {
		t.Helper()
		release, refusal := c.Take(p)
		if refusal != nil {
			if want == "" || !strings.Contains(refusal.Error(), want) {
				t.Errorf("%v: %v, want %q", p, refusal, want)
			}
			return
		}
		if want != "" {
			t.Errorf("%v was given a place, want %q", p, want)
		}
		releases = append(releases, release)
	}
	take(process, "")
	take(process, "")
	take(process, "too many places: process 7 has 2, and no more are allowed to one")
	take(outside, "")
	take(outside, "")
	take(outside, "too many places: user 1, outside of podconfigd's PID namespace, has 2, and no more are allowed to one")
	take(other, "")
	take(other, "too many places: there are 5, and no more are allowed in all")
	for _, release := range releases {
		release()
	}
	if c.total != 0 || len(c.peers) != 0 {
		t.Errorf("%d are left, of %v", c.total, c.peers)
	}
	// Unknown clients, as over TCP, count only in the total.
	for range 5 {
		take(Peer{}, "")
	}
	take(Peer{}, "too many places: there are 5")
}
