package lookup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// The IDs in the lines below.
const (
	uid    = "98005c3b-b650-4efe-8b91-2164d784397f"
	slice  = "98005c3b_b650_4efe_8b91_2164d784397f"
	static = "7260904bbd08e72e4dff95d9fccd2ee8" // the UID of a static pod has no dashes
	inner  = "e8ac3efec3322d7f13cfa0cdee4344754d01bd4e50fea44e0753e83fdb74cab3"
	outer  = "88ea268ece65a02d68b169fd74bcbcb427eb7f28900db0e3b906fb2eeb7341df"
)

// cgroups are the layouts of /proc/PID/cgroup that runtimes, drivers and versions of cgroups
// make. The containers are the outermost first, as "ID@UID".
var cgroups = []struct{ name, lines, want string }{
	// containerd: pkg/cri/sbserver/helpers.go getCgroupsPath; runc: libcontainer/cgroups/systemd.
	{"containerd, v2, systemd, burstable",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + inner + ".scope",
		inner + "@" + uid},
	{"containerd, v2, systemd, guaranteed",
		"0::/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + inner + ".scope",
		inner + "@" + uid},
	{"containerd, v2, systemd, static pod",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + static + ".slice/cri-containerd-" + inner + ".scope",
		inner + "@" + static},
	{"containerd, v2, cgroupfs, besteffort",
		"0::/kubepods/besteffort/pod" + uid + "/" + inner,
		inner + "@" + uid},
	{"containerd, v2, cgroupfs, guaranteed",
		"0::/kubepods/pod" + uid + "/" + inner,
		inner + "@" + uid},
	{"containerd, v1, cgroupfs",
		"11:freezer:/kubepods/besteffort/pod" + uid + "/" + inner + "\n10:cpu,cpuacct:/kubepods/besteffort/pod" + uid + "/" + inner +
			"\n2:rdma:/\n1:name=systemd:/kubepods/besteffort/pod" + uid + "/" + inner,
		inner + "@" + uid},
	{"containerd, v1, systemd",
		"12:misc:/\n11:cpuset:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + inner + ".scope" +
			"\n1:name=systemd:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/cri-containerd-" + inner + ".scope\n0::/",
		inner + "@" + uid},
	{"containerd, hybrid, cgroupfs",
		"3:cpuset:/kubepods/burstable/pod" + uid + "/" + inner + "\n1:name=systemd:/kubepods/burstable/pod" + uid + "/" + inner +
			"\n0::/system.slice/containerd.service",
		inner + "@" + uid},
	{"containerd, hybrid, only some controllers",
		"13:memory:/system.slice/containerd.service\n12:pids:/kubepods/burstable/pod" + uid + "/" + inner + "\n0::/system.slice/containerd.service",
		inner + "@" + uid},
	{"containerd with cgroupfs, kubelet with systemd",
		"11:memory:/kubepods-besteffort-pod" + slice + ".slice:cri-containerd:" + inner,
		inner + "@" + uid},
	{"containerd with cgroupfs, kubelet with systemd, as a service",
		"12:cpu,cpuacct:/system.slice/containerd.service/kubepods-besteffort-pod" + slice + ".slice:cri-containerd:" + inner,
		inner + "@" + uid},
	{"containerd without the cgroup of a pod",
		"0::/k8s.io/" + inner,
		inner + "@"},
	{"containerd, an old kubelet with systemd keeps the dashes",
		"1:name=systemd:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid + ".slice/cri-containerd-" + inner + ".scope",
		inner + "@" + uid},
	{"k3s and kind: the kubelet has a cgroup root",
		"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + slice + ".slice/cri-containerd-" + inner + ".scope",
		inner + "@" + uid},
	{"kind, cgroupfs",
		"0::/kubelet/kubepods/besteffort/pod" + uid + "/" + inner,
		inner + "@" + uid},

	// CRI-O: internal/config/cgmgr.
	{"CRI-O, v2, systemd",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/crio-" + inner + ".scope",
		inner + "@" + uid},
	{"CRI-O with crun, v2, systemd",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/crio-" + inner + ".scope/container",
		inner + "@" + uid},
	{"CRI-O, v1, systemd",
		"12:devices:/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/crio-" + inner + ".scope",
		inner + "@" + uid},
	{"CRI-O, v1, cgroupfs",
		"4:memory:/kubepods/besteffort/pod" + uid + "/crio-" + inner,
		inner + "@" + uid},
	{"CRI-O, the monitor of a container is not in it",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/crio-conmon-" + inner + ".scope",
		"@" + uid},
	{"CRI-O, the monitor of a container, cgroupfs",
		"4:memory:/kubepods/besteffort/pod" + uid + "/crio-conmon-" + inner,
		"@" + uid},
	{"CRI-O, the monitor of a container, outside of the pod",
		"0::/system.slice/crio-conmon-" + inner + ".scope",
		inner + "@"},
	{"CRI-O, the monitor in one hierarchy, the container in another",
		"11:pids:/system.slice/crio-conmon-" + outer + ".scope\n10:memory:/crio-" + inner + ".scope",
		inner + "@"},

	// cri-dockerd, and Docker itself.
	{"Docker, v1, cgroupfs",
		"2:cpu:/kubepods/burstable/pod" + uid + "/" + inner + "\n0::/system.slice/dockerd.service",
		inner + "@" + uid},
	{"Docker, v1, systemd",
		"4:pids:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice/docker-" + inner + ".scope",
		inner + "@" + uid},
	{"Docker, v2, systemd",
		"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/docker-" + inner + ".scope",
		inner + "@" + uid},
	{"Docker without Kubernetes, cgroupfs", "12:pids:/docker/" + inner, inner + "@"},
	{"Docker without Kubernetes, systemd", "0::/system.slice/docker-" + inner + ".scope", inner + "@"},
	{"Podman", "0::/machine.slice/libpod-" + inner + ".scope/container", inner + "@"},
	{"Podman, the monitor", "0::/machine.slice/libpod-conmon-" + inner + ".scope", inner + "@"},

	// Sandboxed runtimes.
	{"Kata Containers", "3:net_prio,net_cls:/kubepods/pod" + uid + "/kata_" + inner, inner + "@" + uid},
	{"Kata Containers, its helpers", "0::/kata_overhead/" + inner, inner + "@"},

	// Cgroups below a container.
	{"systemd in a container",
		"0::/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + inner + ".scope/system.slice/ssh.service",
		inner + "@" + uid},
	{"init.scope in a container",
		"0::/kubepods/pod" + uid + "/" + inner + "/init.scope",
		inner + "@" + uid},
	{"Docker in a container",
		"0::/kubepods/burstable/pod" + uid + "/" + outer + "/docker/" + inner,
		outer + "@" + uid + " " + inner + "@"},
	{"kind, from its host",
		"14:name=systemd:/docker/" + outer + "/kubelet/kubepods/burstable/pod" + uid + "/" + inner,
		outer + "@ " + inner + "@" + uid},
	{"kind, from its host, v2, systemd",
		"0::/system.slice/docker-" + outer + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + slice + ".slice/cri-containerd-" + inner + ".scope",
		outer + "@ " + inner + "@" + uid},
	{"kind in a pod",
		"0::/kubepods/pod" + static + "/" + outer + "/kubelet/kubepods/pod" + uid + "/" + inner,
		outer + "@" + static + " " + inner + "@" + uid},

	// The daemon has a cgroup namespace of its own.
	{"cgroup namespace, another pod",
		"0::/../../pod" + uid + "/" + inner,
		inner + "@" + uid},
	{"cgroup namespace, another static pod of another QoS class",
		"0::/../../../burstable/pod" + static + "/" + inner,
		inner + "@" + static},
	{"cgroup namespace, the same pod", "0::/../crio-" + inner + ".scope", inner + "@"},
	{"cgroup namespace, the same container", "0::/", ""},

	{"containerd, v2, systemd, a process that outlives the cgroup",
		"0::/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + inner + ".scope (deleted)",
		inner + "@" + uid},
	{"containerd, v2, cgroupfs, a process that outlives the cgroup",
		"0::/kubepods/pod" + uid + "/" + inner + " (deleted)\n",
		inner + "@" + uid},

	// Only a part.
	{"a process of a pod, in no container",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + slice + ".slice",
		"@" + uid},
	{"a UID that a manifest chose", "0::/kubepods/podmy-own-uid/" + inner, inner + "@my-own-uid"},

	// No container.
	{"a service", "0::/system.slice/ssh.service", ""},
	{"a user", "12:cpu:/user.slice\n0::/user.slice/user-1000.slice/session-1.scope", ""},
	{"a kernel thread", "0::/", ""},
	{"the kubelet", "0::/kubelet.slice/kubelet.service", ""},
	{"the pods of a QoS class", "0::/kubepods.slice/kubepods-burstable.slice", ""},
	{"a pod of Podman", "0::/machine.slice/machine-libpod_pod_" + inner + ".slice", ""},
	{"a directory whose name begins like that of a pod", "0::/system.slice/podman/podinfo", ""},
	{"63 digits", "0::/docker/" + inner[1:], ""},
	{"65 digits", "0::/docker/a" + inner, ""},
	{"empty", "", ""},
	{"no cgroups", "\n:::\n//", ""},

	// A path, as tools have it.
	{"path", "/kubepods/burstable/pod" + uid + "/" + inner, inner + "@" + uid},
	{"path of the file system", "/sys/fs/cgroup/memory/kubepods/burstable/pod" + uid + "/" + inner + "/memory.stat", inner + "@" + uid},
	{"relative path", "kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + inner + ".scope/", inner + "@" + uid},
	{"cgroupsPath of OCI", "kubepods-burstable-pod" + slice + ".slice:cri-containerd:" + inner, inner + "@" + uid},
}

func TestCgroups(t *testing.T) {
	for _, c := range cgroups {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, found := range ParseCgroup(c.lines) {
				got = append(got, found.ID+"@"+string(found.PodUID))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s: got %q, want %q", c.lines, got, c.want)
			}
		})
	}
}

// procFS is a procfs.
func (n *node) process(pid int, start uint64, cgroup string) {
	n.t.Helper()
	dir := filepath.Join(n.proc, fmt.Sprint(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	stat := fmt.Sprintf("%d (a) R 1 (%c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %d 20 21\n", pid, 'x', start)
	for name, content := range map[string]string{"stat": stat, "cgroup": cgroup} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			n.t.Fatal(err)
		}
	}
}

func TestProcesses(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.runtime.set(uid, "web", outer+" app running")
		web := pod("web")
		web.UID = uid
		other := pod("other")
		other.UID = static
		n.deliver(config.ADD, "file", web, other)
		n.process(1, 0, "0::/init.scope\n")
		n.process(10, 1000, "0::/kubepods/pod"+uid+"/"+outer+"\n")
		n.process(11, 1100, "0::/kubepods/pod"+uid+"/"+outer+"/docker/"+inner+"\n")
		n.process(12, 1200, "0::/kubepods/pod"+static+"/"+inner+"\n")
		n.process(13, 1300, "0::/kubepods.slice/kubepods-pod"+slice+".slice/crio-conmon-"+outer+".scope")
		n.process(14, 1400, "0::/docker/"+inner+"\n")
		n.expect("file web app running", Query{PID: 10, Wait: time.Second})
		n.expect("file web app running", Query{PID: 10, StartTime: 1000})
		n.expect("file web app running", Query{PID: 11})
		n.expect("file web app running", Query{Cgroup: "/kubepods/pod" + uid + "/" + outer})
		n.expect("file other - ?", Query{PID: 12})
		n.ends(n.begin(Query{PID: 12, Wait: time.Second}), "1s: file other - ?") // it waits for the container
		n.expect("file web", Query{PID: 13, Wait: time.Second})
		n.expect("looking up process 14: the container runtime does not have its container "+inner, Query{PID: 14})
		n.expect("looking up process 1: it runs in no container: its cgroup is /init.scope", Query{PID: 1, Wait: time.Second})
		n.expect("looking up process 15: there is no such process in the PID namespace of podconfigd", Query{PID: 15, Wait: time.Second})
		n.expect("looking up process 10: it has ended, and another process has its PID: that one started at 1000, not at 999"+onlyFirst, Query{PID: 10, StartTime: 999})
		n.expect("looking up cgroup /system.slice/ssh.service: it belongs to no container", Query{Cgroup: "/system.slice/ssh.service"})
	})
}

// startOf returns the start time of a process.
func startOf(t *testing.T, d processDir) uint64 {
	t.Helper()
	start, err := d.start()
	if err != nil {
		t.Fatal(err)
	}
	return start
}

// This process has a start time, and its cgroup is that of the test.
func TestThisProcess(t *testing.T) {
	d, err := openProcess("/proc", "self")
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if now, start := startedAt(time.Now()), startOf(t, d); start == 0 || start > now || now-start > 3600*ticks {
		t.Errorf("it started at %d, and now is %d", start, now)
	}
	lines, err := d.cgroup()
	if err != nil {
		t.Skip(err)
	}
	for _, c := range ParseCgroup(lines) {
		if c.ID == "" && c.PodUID == types.UID("") {
			t.Errorf("got an empty container in %s", lines)
		}
	}
}

func FuzzParseCgroup(f *testing.F) {
	for _, c := range cgroups {
		f.Add(c.lines)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		for _, c := range ParseCgroup(lines) {
			if c.ID == "" && c.PodUID == "" || c.ID != "" && len(c.ID) != 64 || !strings.Contains(lines, c.ID) {
				t.Errorf("%q: %+v", lines, c)
			}
		}
	})
}
