package lookup

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// What is hidden is answered as what does not exist: with the same text, after the same time.
func TestHiddenIsAsNone(t *testing.T) {
	id, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	queries := map[string][2]Query{
		"container":      {{ContainerID: id}, {ContainerID: other}},
		"last status":    {{ContainerID: "cafe"}, {ContainerID: "babe"}},
		"UID":            {{PodUID: "hidden"}, {PodUID: "nobody"}},
		"ended UID":      {{PodUID: "gone"}, {PodUID: "nobody"}},
		"IP":             {{PodIP: "10.0.0.1"}, {PodIP: "10.0.0.2"}},
		"IP at":          {{PodIP: "10.0.0.1", At: time.Now()}, {PodIP: "10.0.0.2", At: time.Now()}},
		"ended IP":       {{PodIP: "10.0.0.7"}, {PodIP: "10.0.0.2"}},
		"cgroup":         {{Cgroup: "/kubepods/podhidden/" + id}, {Cgroup: "/kubepods/podnobody/" + other}},
		"log":            {{LogPath: "/var/log/pods/default_hidden_hidden/app/0.log"}, {LogPath: "/var/log/pods/default_nobody_nobody/app/0.log"}},
		"log, ended":     {{LogPath: "/var/log/pods/default_gone_gone/app/3.log"}, {LogPath: "/var/log/pods/default_nobody_nobody/app/0.log"}},
		"link":           {{LogPath: "hidden_default_app.log"}, {LogPath: "nobody_default_app.log"}},
		"link with ID":   {{LogPath: "hidden_default_app-" + id + ".log"}, {LogPath: "nobody_default_app-" + other + ".log"}},
		"process":        {{PID: 101}, {PID: 5555}},
		"process, start": {{PID: 101, StartTime: 101}, {PID: 5555, StartTime: 101}},
		"process, at":    {{PID: 101, At: time.Now()}, {PID: 5555, At: time.Now()}},
		"ended process":  {{PID: 102, StartTime: 102}, {PID: 5555, StartTime: 102}},
		"network":        {{NetNS: 20}, {NetNS: 99}},
		"mounts":         {{MntNS: 21}, {MntNS: 99}},
		"device":         {{Device: "example.com/gpu:hidden"}, {Device: "example.com/gpu:nobody"}},
	}
	for state, set := range map[string]func(*node){
		"all is known": func(*node) {},
		"namespaces of some processes may not be read": func(n *node) {
			read := n.processes.read
			n.processes.read = func() *processes {
				all := read()
				all.denied = true
				return all
			}
		},
		"the runtime fails": func(n *node) { n.runtime.fail(errors.New("it is broken")) },
		"no runtime":        func(n *node) { n.Lookup.runtime, n.firsts.containers = nil, nil },
		"the log is read": func(n *node) {
			n.past, n.loaded = func(time.Time) iter.Seq2[*journal.Pod, time.Time] { return nil }, make(chan struct{})
		},
	} {
		t.Run(state, func(t *testing.T) {
			onNode(t, true, func(n *node) {
				scope := n.hides(id)
				set(n)
				for name, q := range queries {
					for _, wait := range []time.Duration{0, 2 * time.Second} {
						if hidden, none := n.refused(scope, q[0], wait), n.refused(scope, q[1], wait); hidden != none {
							t.Errorf("%s, wait %v: hidden: %s; none: %s", name, wait, hidden, none)
						}
					}
				}
			})
		})
	}
}

// hides has the pod "hidden" with a container, and the pod "gone", which has ended. It returns the scope of a client that sees
// neither.
func (n *node) hides(id string) *view.Scope {
	n.logLinks, n.pods.ended.retention = n.t.TempDir(), time.Hour
	if err := os.Symlink("/var/log/pods/default_hidden_hidden/app/0.log", filepath.Join(n.logLinks, "hidden_default_app.log")); err != nil {
		n.t.Fatal(err)
	}
	gone, side := withStatus(pod("gone", "10.0.0.7"), "cafe", "c0"), strings.Repeat("c", 64)
	n.deliver(config.ADD, "api", pod("hidden", "10.0.0.1"), gone)
	n.run(1, fakeProcess{1, "/init.scope", [4]int{10, 11, 12, 13}})
	n.run(101, fakeProcess{101, cgroupOf("hidden", id), [4]int{20, 21, 22, 23}})
	n.run(102, fakeProcess{102, cgroupOf("hidden", side), [4]int{30, 31, 32, 33}})
	n.runtime.set("hidden", "hidden", id+" app running", side+" side running")
	n.assign("hidden", "app", "hidden")
	n.find(Query{ContainerID: "none", Wait: time.Second})
	n.find(Query{PID: 101})
	n.exit(102)
	n.deliver(config.REMOVE, "api", gone)
	policy := access.NewPolicy([]access.Rule{{Namespaces: []string{"other"}, View: access.Full}})
	scope, err := view.NewGate(n.journal, policy).Scope(access.Subject{User: "agent"})
	if err != nil {
		n.t.Fatal(err)
	}
	return scope
}

// refused returns the error of a query and its duration.
func (n *node) refused(scope *view.Scope, q Query, wait time.Duration) string {
	n.pass(2 * fresh)
	if q.Wait = wait; !q.At.IsZero() {
		q.At = time.Now()
	}
	began := time.Now()
	answer, err := n.Find(n.t.Context(), scope, &q)
	if err == nil {
		n.t.Fatalf("got %+v", answer)
	}
	_, why, _ := strings.Cut(err.Error(), ": ")
	return fmt.Sprint(time.Since(began), " ", apierrors.ReasonForError(err), " ", why)
}
