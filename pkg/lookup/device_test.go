package lookup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// assign makes the kubelet assign devices of the resource example.com/gpu to a container, besides what it assigned.
func (n *node) assign(uid types.UID, container string, ids ...string) {
	all := make(map[devices.Pod][]v1alpha1.ContainerResources)
	if n.devices != nil {
		for pod, resources := range n.devices().All() {
			all[pod] = slices.Clone(resources)
		}
	}
	pod := devices.Pod{NamespacedName: types.NamespacedName{Namespace: "default", Name: string(uid)}, UID: uid}
	all[pod] = append(all[pod], v1alpha1.ContainerResources{Container: container, Devices: []v1alpha1.Devices{{Resource: "example.com/gpu", IDs: ids}}})
	table := devices.NewTable(time.Now(), all)
	n.devices = func() *devices.Table { return table }
}

// holders returns who has a device: "pod uid container id resources, …", or the reason why that is not known.
func (n *node) holders(scope *view.Scope, device string) string {
	answer, err := n.Find(n.t.Context(), scope, &Query{Device: device})
	if err != nil {
		return string(apierrors.ReasonForError(err))
	}
	var all []string
	for _, p := range answer.Pods {
		all = append(all, fmt.Sprint(p.Name, " ", p.UID, " ", p.Container.Name, " ", p.Container.ID, " ", len(p.Resources)))
	}
	return strings.Join(all, ", ")
}

// found returns the pods of an answer.
func (n *node) found(q Query) []v1alpha1.LookupPod {
	answer, err := n.Find(n.t.Context(), nil, &q)
	if err != nil {
		n.t.Error(err)
		return nil
	}
	return answer.Pods
}

// A device gives each container that has it, and a pod its devices. A pod that ended has none.
func TestDevice(t *testing.T) {
	onNode(t, true, func(n *node) {
		expect := func(device, want string) {
			t.Helper()
			if got := n.holders(nil, device); got != want {
				t.Errorf("%s: got %s, want %s", device, got, want)
			}
		}
		expect("example.com/gpu:0", "NotImplemented")
		n.devices = func() *devices.Table { return new(devices.Table) }
		expect("example.com/gpu:0", "ServiceUnavailable")
		static := pod("static", "10.0.0.2")
		n.deliver(config.ADD, "api", pod("web", "10.0.0.1"), mirrorOf(static, "mirror"))
		n.deliver(config.ADD, "file", static)
		n.runtime.set("web", "web", "s1 - running", "c1 app exited", "c2 side running")
		n.runtime.set("orphan", "orphan", "s3 - running", "c3 app running")
		n.find(Query{ContainerID: "none", Wait: time.Second})
		n.assign("web", "app", "0", "1")
		n.assign("web", "side", "1")
		n.assign("static", "app", "2")
		n.assign("orphan", "app", "3", "1")
		n.assign("unknown", "app", "4")
		expect("example.com/gpu:0", "web web app c1 2")
		expect("example.com/gpu:1", "orphan orphan app c3 1, web web app c1 2, web web side c2 2")
		expect("example.com/gpu:2", "static static app  1")
		expect("example.com/gpu:3", "orphan orphan app c3 1")
		expect("example.com/gpu:4", "NotFound")
		expect("example.com/gpu:5", "NotFound")
		for query, want := range map[Query]int{{PodUID: "web"}: 2, {PodUID: "mirror"}: 1, {PodIP: "10.0.0.2"}: 1, {ContainerID: "c3"}: 1, {PodUID: "orphan"}: 1} {
			if p := n.found(query); len(p) == 0 || len(p[0].Resources) != want {
				t.Errorf("%+v: got %+v, want %d resources", query, p, want)
			}
		}
		n.deliver(config.REMOVE, "api", pod("web", "10.0.0.1"))
		expect("example.com/gpu:0", "NotFound")
		if p := n.found(Query{PodUID: "web"}); len(p) != 1 || p[0].Ended == nil || p[0].Resources != nil {
			t.Errorf("after its end: got %+v", p)
		}
	})
}

// A pod of another name that is annotated as a mirror pod does not show the devices of the pod with that UID.
func TestDevicesOfAForgedMirrorPod(t *testing.T) {
	onNode(t, true, func(n *node) {
		forged := mirrorOf(pod("web", "10.0.0.66"), "forged")
		forged.Namespace = "tenant"
		n.deliver(config.ADD, "api", forged)
		n.runtime.set("web", "web", "c1 app running")
		n.find(Query{ContainerID: "none", Wait: time.Second})
		n.assign("web", "app", "0")
		for range 2 {
			for _, q := range []Query{{PodUID: "forged"}, {PodIP: "10.0.0.66"}} {
				if p := n.found(q); len(p) != 1 || p[0].Namespace != "tenant" || p[0].Resources != nil {
					t.Errorf("%+v: got %+v", q, p)
				}
			}
			if got := n.holders(nil, "example.com/gpu:0"); got != "web web app c1 1" {
				t.Errorf("got %s", got)
			}
			n.deliver(config.ADD, "api", pod("web", "10.0.0.1")) // it was only in the runtime before
		}
	})
}

// A device of one of two pods with a UID is not shown as one of the other.
func TestDevicesOfTwoPodsWithAUID(t *testing.T) {
	onNode(t, false, func(n *node) {
		other := pod("other")
		other.UID = "web"
		n.deliver(config.ADD, "file", pod("web"))
		n.deliver(config.ADD, "api", other)
		n.assign("web", "app", "0")
		both := maps.Collect(n.devices().All())
		both[devices.PodOf(other)] = []v1alpha1.ContainerResources{{Container: "app", Devices: []v1alpha1.Devices{{Resource: "example.com/gpu", IDs: []string{"1"}}}}}
		table := devices.NewTable(time.Now(), both)
		n.devices = func() *devices.Table { return table }
		shown := n.found(Query{PodUID: "web"})[0].Name
		for device, name := range map[string]string{"0": "web", "1": "other"} {
			want := "NotFound"
			if name == shown {
				want = name + " web app  1"
			}
			if got := n.holders(nil, "example.com/gpu:"+device); got != want {
				t.Errorf("%s: got %s, want %s", device, got, want)
			}
		}
	})
}

// While the runtime does not answer, a device can be of a pod that it does not show yet.
func TestDeviceWithoutTheRuntime(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.runtime.set("web", "web", "c1 app running")
		n.find(Query{ContainerID: "none", Wait: time.Second})
		n.assign("web", "app", "0")
		n.runtime.fail(errors.New("it is broken"))
		n.find(Query{ContainerID: "none", Wait: time.Second})
		for device, want := range map[string]string{"0": "web web app c1 1", "1": "ServiceUnavailable"} {
			if got := n.holders(nil, "example.com/gpu:"+device); got != want {
				t.Errorf("%s: got %s, want %s", device, got, want)
			}
		}
	})
}

// Devices are shown to who may see the resources in the spec of the pod.
func TestDevicesOfViews(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.deliver(config.ADD, "api", pod("web", "10.0.0.1"))
		n.runtime.set("orphan", "orphan", "c3 app running")
		n.find(Query{ContainerID: "none", Wait: time.Second})
		n.assign("web", "app", "0")
		n.assign("orphan", "app", "0")
		for level, want := range map[access.Level]string{
			access.None: "NotFound", access.Metadata: "NotFound", access.Redacted: "orphan orphan app c3 1, web web app  1", access.Full: "orphan orphan app c3 1, web web app  1",
		} {
			policy := access.NewPolicy([]access.Rule{{Namespaces: []string{"default"}, View: level}, {Namespaces: []string{"other"}, View: access.Full}})
			scope, err := view.NewGate(n.journal, policy).Scope(access.Subject{User: "agent"})
			if err != nil {
				t.Fatal(err)
			}
			if got := n.holders(scope, "example.com/gpu:0"); got != want {
				t.Errorf("%v: got %s, want %s", level, got, want)
			}
			all, err := n.Devices(scope)
			if err != nil {
				t.Fatal(err)
			}
			if all := all.Pods; level >= access.Redacted && len(all) != 2 || level < access.Redacted && len(all) != 0 {
				t.Errorf("%v: got %+v", level, all)
			}
			if level == access.Metadata {
				if answer, err := n.Find(t.Context(), scope, &Query{PodUID: "web"}); err != nil || answer.Pods[0].Resources != nil {
					t.Errorf("%v: got %+v, %v", level, answer, err)
				}
			}
		}
	})
}
