package lookup

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// everyWay are all ways to ask for the pod web, whose mirror pod has another UID and the IP.
var everyWay = map[string]Query{
	"UID of the static pod": {PodUID: "web"}, "UID of the mirror pod": {PodUID: "mirror"}, "IP": {PodIP: "10.0.0.9"},
	"container": {ContainerID: "c1"}, "cgroup": {Cgroup: "/kubepods/podweb/" + longID},
}

const longID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// expectEach compares what each way in answers: source, UID, phase and IPs, or "-" if it is not found.
func (n *node) expectEach(scope *view.Scope, want map[string]string) {
	n.t.Helper()
	for name, q := range everyWay {
		got := "-"
		if answer, err := n.Find(n.t.Context(), scope, &q); err == nil {
			got = ""
			for _, p := range answer.Pods {
				got += fmt.Sprint(p.Source, " ", p.UID, " ", p.Phase, " ", p.PodIPs)
				if mirrored := p.Source == "file" && p.Phase == "Running"; q.PodUID != "" && (p.StatusBy == "mirrorPod") != mirrored {
					n.t.Errorf("%s: the status is by %q", name, p.StatusBy)
				}
				if p.Ended != nil {
					got += " ended"
				}
			}
		}
		wanted, special := want[name]
		if !special {
			wanted = want[""]
		}
		if got != wanted {
			n.t.Errorf("%s: got %q, want %q", name, got, wanted)
		}
	}
}

// A static pod and its mirror pod are one pod: each way in answers with the identity of the static pod and the best status that
// is known.
func TestEachWayInToAStaticPod(t *testing.T) {
	onNode(t, true, func(n *node) {
		static := pod("web")
		static.Status.Phase = v1.PodPending
		mirror := mirrorOf(pod("web", "10.0.0.9"), "mirror")
		n.runtime.set("web", "web", "s1 - running", "c1 app running", longID+" app running")
		n.deliver(config.ADD, "file", static)
		n.deliver(config.ADD, "api", mirror)
		n.find(Query{ContainerID: "none", Wait: time.Second}) // lists
		n.expectEach(nil, map[string]string{"": "file web Running [10.0.0.9]"})

		byRuntime := static.Status
		byRuntime.Phase, byRuntime.PodIP = v1.PodFailed, "10.0.0.9"
		n.journal.Append(config.PodUpdate{Op: config.RECONCILE, Source: "file", Pods: []*v1.Pod{static}, Statuses: []*v1.PodStatus{&byRuntime}, StatusOnly: true})
		n.expectEach(nil, map[string]string{"": "file web Failed [10.0.0.9]"})

		n.deliver(config.REMOVE, "api", mirror)
		n.expectEach(nil, map[string]string{"": "file web Failed [10.0.0.9]"})
		n.deliver(config.ADD, "api", mirror)
		n.deliver(config.REMOVE, "file", static)
		n.expectEach(nil, map[string]string{"": "api mirror Running [10.0.0.9]"})
		n.deliver(config.REMOVE, "api", mirror)
		n.expectEach(nil, map[string]string{"": "file web Failed [10.0.0.9] ended"})
	})
}

// By the access rules, a client may see only one of the two. It learns nothing of the other.
func TestStaticPodsAndMirrorPodsByView(t *testing.T) {
	onNode(t, true, func(n *node) {
		static := pod("web")
		static.Status.Phase = v1.PodPending
		static.Labels = map[string]string{"is": "static"}
		mirror := mirrorOf(pod("web", "10.0.0.9"), "mirror")
		mirror.Labels = map[string]string{"is": "mirror"}
		n.runtime.set("web", "web", "s1 - running", "c1 app running", longID+" app running")
		n.deliver(config.ADD, "file", static)
		n.deliver(config.ADD, "api", mirror)
		n.find(Query{ContainerID: "none", Wait: time.Second}) // lists
		for sees, want := range map[string]map[string]string{
			"static": {"": "file web Pending []", "UID of the mirror pod": "-", "IP": "-"},
			"mirror": {"": "api mirror Running [10.0.0.9]", "UID of the static pod": "-", "container": "-", "cgroup": "-"},
		} {
			gate := view.NewGate(n.journal, access.NewPolicy([]access.Rule{{LabelSelector: labels.SelectorFromSet(labels.Set{"is": sees}), View: access.Full}}))
			scope, err := gate.Scope(access.Subject{User: "agent"})
			if err != nil {
				t.Fatal(err)
			}
			n.expectEach(scope, want)
		}
	})
}
