package lookup

import (
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

func TestHandles(t *testing.T) {
	for arg, want := range map[string]client.LookupQuery{
		"self":                       {Self: true},
		"cgroup:1234":                {CgroupID: 1234},
		"cgroup:/kubepods/podx":      {Cgroup: "/kubepods/podx"},
		"netns:4026531840":           {NetNS: 4026531840},
		"mntns:1":                    {MntNS: 1},
		"pidns:1":                    {PidNS: 1},
		"cgroupns:1":                 {CgroupNS: 1},
		"log:/var/log/a:b/0.log":     {LogPath: "/var/log/a:b/0.log"},
		"device:example.com/gpu:0:1": {Device: "example.com/gpu:0:1"},
		"4711":                       {PID: 4711},
		"fd00::1":                    {PodIP: "fd00::1"},
		"containerd://3f5a":          {ContainerID: "containerd://3f5a"},
		"0::/kubepods/podx":          {Cgroup: "0::/kubepods/podx"},
		"selfish":                    {ContainerID: "selfish"},
	} {
		if got, err := lookupQuery("", arg); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", arg, got, err)
		}
	}
	if got, err := lookupQuery("container", "self"); err != nil || got.ContainerID != "self" {
		t.Errorf("--by container self: got %+v, %v", got, err)
	}
	for _, arg := range []string{"netns:", "netns:0", "netns:x", "mntns:-1", "pidns:18446744073709551616", "cgroup:", "cgroup:kubepods"} {
		if got, err := lookupQuery("", arg); err == nil || !strings.Contains(err.Error(), "is not an ID: expected 1 to 18446744073709551615") {
			t.Errorf("%s: got %+v, %v", arg, got, err)
		}
	}
}

func TestTheHost(t *testing.T) {
	for want, host := range map[string]v1alpha1.LookupHost{
		"It is the network namespace of the host. 12 pods are in it.\n": {Namespace: "netns", Pods: 12},
		"It is the PID namespace of the host. 1 pod is in it.\n":        {Namespace: "pidns", Pods: 1},
	} {
		var out strings.Builder
		if err := printLookup(&out, "", &v1alpha1.Lookup{Host: &host}); err != nil || out.String() != want {
			t.Errorf("got %q, %v", out.String(), err)
		}
	}
}
