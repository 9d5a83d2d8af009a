package lookup

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// onlyFirst is the end of an error about a process that has ended.
const onlyFirst = " (of processes that have ended, podconfigd knows only the first one of a container, if a lookup has read it)"

// A PID answers for the process that has it, and at a time for the one that had it then: one that runs, or the first one of a
// container.
func TestAPIDAtATime(t *testing.T) {
	onNode(t, true, func(n *node) {
		const (
			gone  = "looking up process 101: there is no such process in the PID namespace of podconfigd"
			later = "looking up process 101: the process that has the PID now started later"
		)
		n.serves()
		began := time.Now()
		n.expect("file web app running", Query{PID: 101}) // reads the processes
		n.pass(10 * time.Second)

		// The container is removed, and later a container of another pod has the PID.
		n.exit(101)
		n.exit(103)
		n.runtime.set("web", "web", sandboxID+" - running", sideID+" side running")
		n.find(Query{ContainerID: "none", Wait: time.Second}) // lists
		n.expect(gone, Query{PID: 101})
		n.expect("file web app exited ended", Query{PID: 101, At: began.Add(5 * time.Second), Wait: time.Minute})
		n.expect("file web app exited ended", Query{PID: 101, StartTime: 101})
		n.expect(gone+onlyFirst, Query{PID: 101, StartTime: 102})
		n.expect(strings.Replace(gone, "101", "103", 1)+onlyFirst, Query{PID: 103, StartTime: 103}) // it was not the first
		if answer, err := n.Find(t.Context(), nil, &Query{PID: 101, StartTime: 101}); err != nil || answer.Pods[0].Container.PID != 101 || answer.Pods[0].Container.StartTime != 101 {
			t.Errorf("got %+v, %v", answer, err)
		}
		n.pass(20 * time.Second)
		n.run(101, fakeProcess{startedAt(time.Now().Add(-5 * time.Second)), cgroupOf("other", otherID), [4]int{80, 81, 82, 83}})
		n.expect("file other app running", Query{PID: 101})
		n.expect("file other app running", Query{PID: 101, At: time.Now().Add(-time.Second)})
		n.expect(later+onlyFirst, Query{PID: 101, At: time.Now().Add(-15 * time.Second)})
		n.expect(later+onlyFirst, Query{PID: 101, At: time.Unix(1, 0)})
		n.expect("file web app exited ended", Query{PID: 101, At: began.Add(5 * time.Second)})
		n.expect("file web app exited ended", Query{PID: 101, StartTime: 101})
		n.expect("looking up process 1: it runs in no container: its cgroup is /init.scope", Query{PID: 1, At: began})

		// The runtime has the container, but it has exited.
		n.exit(102)
		n.runtime.set("web", "web", sandboxID+" - running", sideID+" side exited")
		n.find(Query{ContainerID: "none", Wait: time.Second})
		n.pass(10 * time.Second)
		n.expect("file web side exited 3", Query{PID: 102, At: time.Now().Add(-12 * time.Second)})
		n.expect(strings.Replace(gone, "101", "102", 1)+onlyFirst, Query{PID: 102, At: time.Now().Add(-5 * time.Second)})

		// The pod ends, and the answer is that of a pod that ended. Who may not see it learns nothing.
		n.deliver(config.REMOVE, "file", pod("web"))
		n.expect("file web ended app exited ended", Query{PID: 101, StartTime: 101})
		gate := view.NewGate(n.journal, access.NewPolicy([]access.Rule{{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "other"}), View: access.Full}}))
		scope, err := gate.Scope(access.Subject{User: "agent"})
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range []uint64{101, 102} {
			if _, err := n.Find(t.Context(), scope, &Query{PID: 101, StartTime: start}); err == nil || err.Error() != "looking up process 101: no pod that the access rules show has it" {
				t.Errorf("start %d: got %v", start, err)
			}
		}
	})
}

// What the runtime does not know any more is forgotten.
func TestFirstProcessesAreForgotten(t *testing.T) {
	var f firsts
	for i := range 10000 {
		f.add(map[started]string{{i, uint64(i)}: "old"}, func(id string) bool { return id != "old" })
	}
	f.add(map[started]string{{1, 2}: "new"}, func(string) bool { return true })
	if n := len(f.containers); n > 65 {
		t.Errorf("%d processes are left", n)
	}
	if p, id := f.find(1, 0, time.Time{}); id != "new" || p != (started{1, 2}) {
		t.Errorf("got %v, %s", p, id)
	}
}
