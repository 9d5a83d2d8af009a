package lookup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// handles returns the handles in the answer to a query: "PID startTime cgroup netns mntns pidns cgroupns", or "none".
func (n *node) handles(q Query) string {
	n.t.Helper()
	answer, err := n.Find(n.t.Context(), nil, &q)
	if err != nil {
		return err.Error()
	}
	c := *answer.Pods[0].Container
	if (c.PID == 0) != (c.Cgroup == "") {
		n.t.Errorf("%+v: %+v", q, c)
	}
	if c.PID == 0 {
		return "none"
	}
	return fmt.Sprint(c.PID, " ", c.StartTime, " ", strings.ReplaceAll(c.Cgroup, c.ID, "ID"), " ", c.NetNS, " ", c.MntNS, " ", c.PidNS, " ", c.CgroupNS)
}

func (n *node) expectHandles(want string, q Query) {
	n.t.Helper()
	if got := n.handles(q); got != want {
		n.t.Errorf("%+v: got %q, want %q", q, got, want)
	}
}

// Each answer with a running container has its handles, whatever the query is.
func TestHandles(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.serves()
		n.run(99, fakeProcess{102, cgroupOf("web", appID), [4]int{20, 31, 32, 33}}) // it is younger, and has a smaller PID
		n.run(90, fakeProcess{90, "/system.slice/crio-conmon-" + appID + ".scope", [4]int{10, 11, 12, 13}})
		for _, q := range []Query{
			{ContainerID: appID}, {PID: 101}, {PID: 103}, {Cgroup: cgroupOf("web", appID)}, {MntNS: 31}, {MntNS: 39},
			{LogPath: "/var/log/pods/default_web_web/app/0.log"}, {Self: true, Client: 103, Connected: time.Now()},
		} {
			n.expectHandles("101 101 /kubepods/podweb/ID 20 31 32 33", q)
		}
		n.expectHandles("100 100 /kubepods/podweb/ID 20 21 22 23", Query{NetNS: 20})
		n.expectHandles("none", Query{ContainerID: otherID}) // it has no process

		// The container has restarted: another process has its PID, and the PID of the new one is another.
		n.run(101, fakeProcess{900, "/system.slice/ssh.service", [4]int{10, 11, 12, 13}})
		n.exit(99)
		n.exit(103)
		n.run(104, fakeProcess{904, cgroupOf("web", appID), [4]int{20, 51, 52, 53}})
		n.pass(fresh)
		n.expectHandles("104 904 /kubepods/podweb/ID 20 51 52 53", Query{ContainerID: appID})
		n.run(104, fakeProcess{904, cgroupOf("web", appID), [4]int{20, 61, 52, 53}}) // it has unshared its mounts
		n.pass(fresh)
		n.expectHandles("104 904 /kubepods/podweb/ID 20 61 52 53", Query{ContainerID: appID})
		n.run(104, fakeProcess{950, cgroupOf("web", appID), [4]int{20, 61, 52, 53}}) // a later process of the container has the PID
		n.pass(fresh)
		n.expectHandles("104 950 /kubepods/podweb/ID 20 61 52 53", Query{ContainerID: appID})
		n.run(104, fakeProcess{950, "/system.slice/ssh.service", [4]int{20, 61, 52, 53}}) // moved
		n.pass(fresh)
		n.expectHandles("none", Query{ContainerID: appID})
	})
}

// Processes are read only for containers that have one, and not more than once a second.
func TestReadingsForHandles(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.serves()
		n.runtime.set("done", "done", sideID[:60]+"- - running", strings.Repeat("e", 64)+" app exited", strings.Repeat("f", 64)+" app created")
		n.find(Query{ContainerID: "none", Wait: time.Second}) // lists
		reads := 0
		n.processes = newPaced(func() *processes { reads++; return readProcesses(n.proc) })
		look := func(want int, queries ...Query) {
			n.t.Helper()
			for _, q := range queries {
				n.find(q)
			}
			if reads != want {
				n.t.Errorf("%+v: %d readings, want %d", queries, reads, want)
			}
		}
		look(0, Query{PodUID: "web"}, Query{PodIP: "10.0.0.1"}, Query{ContainerID: strings.Repeat("e", 64)}, Query{ContainerID: strings.Repeat("f", 64)})
		look(1, Query{ContainerID: appID}, Query{ContainerID: otherID}, Query{ContainerID: otherID}, Query{PidNS: 32})
		n.pass(fresh)
		look(1, Query{ContainerID: appID}, Query{ContainerID: sandboxID})
		look(2, Query{ContainerID: otherID}, Query{ContainerID: otherID})
		n.pass(2 * fresh)
		look(3, Query{NetNS: 20}, Query{NetNS: 20}, Query{ContainerID: otherID})
	})
}

// A container can name cgroups below its own as other containers. Their handles are not those of its processes.
func TestForgedCgroupsHaveNoHandles(t *testing.T) {
	for _, withRuntime := range []bool{true, false} {
		onNode(t, withRuntime, func(n *node) {
			n.serves()
			n.run(50, fakeProcess{50, cgroupOf("web", appID) + "/" + otherID, [4]int{60, 61, 62, 63}})
			n.run(51, fakeProcess{51, cgroupOf("web", appID) + "/kubepods/podother/" + otherID, [4]int{60, 71, 62, 63}})
			cgroup := Query{Cgroup: cgroupOf("other", otherID)}
			n.expectHandles("none", cgroup)
			want := "file web app running"
			if !withRuntime {
				want = "file web - ?"
			}
			n.expect(want, Query{MntNS: 61})
			n.expect(want, Query{MntNS: 71})
			n.run(200, fakeProcess{200, cgroupOf("other", otherID), [4]int{80, 81, 82, 83}})
			n.pass(2 * fresh)
			n.expectHandles("200 200 /kubepods/podother/ID 80 81 82 83", cgroup)
		})
	}
}

func TestCgroupOfContainer(t *testing.T) {
	for lines, want := range map[string]string{
		"0::/kubepods.slice/cri-containerd-ID.scope/below/it\n":                             "/kubepods.slice/cri-containerd-ID.scope true",
		"0::/../../kubepods/podx/ID":                                                        "/../../kubepods/podx/ID true",
		"4:memory:/kubepods/podx/ID\n1:cpu:/kubepods/podx/ID\n0::/\n":                       "/kubepods/podx/ID false",
		"4:memory:/kubepods/podx/ID\n0::/kubepods/podx/ID/a\n":                              "/kubepods/podx/ID true",
		"4:memory:/system.slice/containerd.service/kubepods-podx.slice:cri-containerd:ID\n": "/system.slice/containerd.service/kubepods-podx.slice:cri-containerd:ID false",
		"0::/system.slice\n": " false",
		"ID":                 " false",
	} {
		if path, isV2 := cgroupOfContainer(lines, "ID"); fmt.Sprint(path, " ", isV2) != want {
			t.Errorf("%q: got %s %t, want %s", lines, path, isV2, want)
		}
	}
}

// The PID of a client that has ended can belong to another process.
func TestTheClient(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.serves()
		n.expect("file web app running", Query{Self: true, Client: 101, Connected: time.Now()})
		n.expect("looking up the client, process 1: it runs in no container: its cgroup is /init.scope", Query{Self: true, Client: 1, Connected: time.Now()})
		n.run(101, fakeProcess{startedAt(time.Now().Add(time.Minute)), cgroupOf("other", otherID), [4]int{}})
		n.expect("looking up the client, process 101: it has ended, and another process has its PID", Query{Self: true, Client: 101, Connected: time.Now()})
		n.exit(101)
		n.expect("looking up the client, process 101: there is no such process in the PID namespace of podconfigd", Query{Self: true, Client: 101, Connected: time.Now()})
	})
}

// The directory of a process that has ended can't be read, whatever process has its PID. The directory of another process with the
// PID has another identity.
func TestDirectoriesOfProcesses(t *testing.T) {
	open := func(pid int) processDir {
		t.Helper()
		d, err := openProcess("/proc", strconv.Itoa(pid))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.close)
		return d
	}
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	own, child := open(os.Getpid()), open(cmd.Process.Pid)
	p := process{start: startOf(t, own)}
	var err error
	if p.identity, err = own.identity(); err != nil || !p.is(own) || !p.is(open(os.Getpid())) {
		t.Errorf("the directory of this process is not recognized: %v", err)
	}
	if p.is(child) {
		t.Error("the directory of another process is taken for that of this one")
	}
	p.identity = identity{}
	if !p.is(own) {
		t.Error("the directory of this process is not recognized by its start time")
	}
	if _, err := child.namespace(netNS); err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_, ofCgroup := child.cgroup()
	_, ofStart := child.start()
	_, ofNamespace := child.namespace(netNS)
	for _, err := range []error{ofCgroup, ofStart, ofNamespace} {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("after the end of the process: %v", err)
		}
	}
}

// The host's namespaces are those of process 1. The answer counts the pods that the client sees.
func TestNamespacesOfTheHost(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.serves()
		host := func(want string, q Query) {
			n.t.Helper()
			answer, err := n.Find(n.t.Context(), nil, &q)
			if err != nil {
				n.t.Error(err)
				return
			}
			if got := fmt.Sprintf("%+v %d %t", answer.Host, len(answer.Pods), answer.Instance == n.journal.Instance()); got != want || answer.Pods == nil {
				n.t.Errorf("%+v: got %s, want %s", q, got, want)
			}
		}
		host("&{Namespace:netns Pods:0} 0 true", Query{NetNS: 10})
		n.run(200, fakeProcess{200, cgroupOf("other", otherID), [4]int{10, 81, 12, 13}})
		n.run(201, fakeProcess{201, cgroupOf("web", sideID), [4]int{20, 81, 32, 13}})
		n.pass(fresh + time.Millisecond)
		host("&{Namespace:netns Pods:1} 0 true", Query{NetNS: 10})
		host("&{Namespace:mntns Pods:0} 0 true", Query{MntNS: 11})
		host("&{Namespace:pidns Pods:1} 0 true", Query{PidNS: 12})
		host("&{Namespace:cgroupns Pods:2} 0 true", Query{CgroupNS: 13})
		n.expect("file other app running, file web side running", Query{MntNS: 81}) // of two pods

		// The namespaces of process 1 can't be read.
		n.run(1, fakeProcess{1, "/init.scope", [4]int{}})
		n.pass(2 * fresh)
		n.expect("file other app running", Query{NetNS: 10})
		hostNetwork := pod("other")
		hostNetwork.Spec.HostNetwork = true
		n.deliver(config.UPDATE, "file", hostNetwork)
		host("&{Namespace:netns Pods:1} 0 true", Query{NetNS: 10})

		// They are those of podconfigd, unless it runs in a container.
		self := func(cgroup string) {
			n.t.Helper()
			_ = os.RemoveAll(filepath.Join(n.proc, "self"))
			n.run(7, fakeProcess{7, cgroup, [4]int{90, 11, 92, 93}})
			if err := os.Rename(filepath.Join(n.proc, "7"), filepath.Join(n.proc, "self")); err != nil {
				n.t.Fatal(err)
			}
			n.pass(2 * fresh)
		}
		self("/system.slice/podconfigd.service")
		host("&{Namespace:pidns Pods:0} 0 true", Query{PidNS: 92})
		n.expect("looking up mntns 11: no process in a container has it", Query{MntNS: 11})
		self(cgroupOf("agent", strings.Repeat("e", 64)))
		n.expect("looking up pidns 92: no process in a container has it", Query{PidNS: 92})
	})
}

// Without CAP_SYS_PTRACE, podconfigd does not know in which namespaces the processes of containers are.
func TestNamespacesThatMayNotBeRead(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	onNode(t, true, func(n *node) {
		n.serves()
		dir := filepath.Join(n.proc, "101", "ns")
		if err := os.Chmod(dir, 0); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Chmod(dir, 0o755) }()
		n.expect("file web - running", Query{NetNS: 20})
		n.expect("looking up mntns 31: podconfigd may not read the namespaces of all processes: it needs the capability CAP_SYS_PTRACE", Query{MntNS: 31})
	})
}

// A client learns nothing of the handles of pods that it does not see.
func TestHandlesByView(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.serves()
		n.run(200, fakeProcess{200, cgroupOf("other", otherID), [4]int{10, 81, 12, 13}})
		gate := view.NewGate(n.journal, access.NewPolicy([]access.Rule{{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "web"}), View: access.Full}}))
		scope, err := gate.Scope(access.Subject{User: "agent"})
		if err != nil {
			t.Fatal(err)
		}
		for q, want := range map[Query]string{
			{MntNS: 31}: "web",
			{MntNS: 81}: "looking up mntns 81: no pod that the access rules show has it",
			{MntNS: 99}: "looking up mntns 99: no pod that the access rules show has it",
			{NetNS: 10}: "host 0",
			{LogPath: "default_other_other/app/0.log"}:       "looking up log default_other_other/app/0.log: no pod that the access rules show has it",
			{Self: true, Client: 200, Connected: time.Now()}: "looking up the client, process 200: no pod that the access rules show has it",
			{Self: true, Client: 101, Connected: time.Now()}: "web",
			{LogPath: "default_web_web/app/0.log"}:           "web",
		} {
			answer, err := n.Find(n.t.Context(), scope, &q)
			var got string
			switch {
			case err != nil:
				got = err.Error()
			case answer.Host != nil:
				got = fmt.Sprint("host ", answer.Host.Pods)
			default:
				got = answer.Pods[0].Name
			}
			if got != want {
				t.Errorf("%+v: got %q, want %q", q, got, want)
			}
		}
	})
}

// 10,000 handles of 250 pods take at most 8 MB. The test has a fifth of them.
func TestMemoryOfHandles(t *testing.T) {
	onNode(t, false, func(n *node) {
		const pods, containers, most = 50, 10, 8 << 20 / 5 // each container has four namespaces
		ids := make([]string, pods*containers)
		for i := range ids {
			ids[i] = fmt.Sprintf("%064x", i)
			slice := fmt.Sprintf("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod01234567_89ab_cdef_0123_%012x.slice", i/containers)
			n.run(1000+i, fakeProcess{uint64(i), slice + "/cri-containerd-" + ids[i] + ".scope", [4]int{5*i + 1, 5*i + 2, 5*i + 3, 5*i + 4}})
		}
		heap := func() int64 {
			var stats runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&stats)
			return int64(stats.HeapAlloc)
		}
		before := heap()
		for _, id := range ids {
			if h, err := n.handlesOf(n.t.Context(), id, time.Now().Add(-fresh), false); err != nil || h == nil {
				t.Fatalf("%s: %v, %v", id, h, err)
			}
		}
		took := heap() - before
		if t.Logf("%d kB", took>>10); took > most {
			t.Errorf("%d handles take %d bytes, at most %d are allowed", len(ids)*4, took, most)
		}
		runtime.KeepAlive(n)
	})
}

// The processes of a container whose cgroup is beside that of its sandbox are found there. Not all processes are read for it.
func TestHandlesBesideTheSandbox(t *testing.T) {
	cgroups, m := realCgroups(t)
	base, sep := fmt.Sprintf("test-%d-kubepods", os.Getpid()), string(filepath.ListSeparator)
	for _, path := range []string{base, base + sep + "podweb", base + sep + "podweb" + sep + appID, base + sep + "podweb" + sep + otherID} {
		makeCgroup(t, m, path)
	}
	sleep := exec.CommandContext(t.Context(), "sleep", "3600")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	pid := sleep.Process.Pid
	procs := filepath.Join(m.point, base, "podweb", appID, "cgroup.procs")
	if err := os.WriteFile(procs, []byte(strconv.Itoa(pid)), 0o600); err != nil {
		t.Skipf("moving a process: %v", err)
	}
	onNode(t, true, func(n *node) {
		n.serves()
		n.cgroups = cgroups
		n.exit(99)
		for _, p := range []int{101, 103} {
			n.exit(p)
		}
		n.run(100, fakeProcess{100, "/" + base + "/podweb/" + sandboxID, [4]int{20, 21, 22, 23}})
		n.find(Query{NetNS: 20}) // reads the processes
		reads := 0
		n.processes.read = func() *processes { reads++; return readProcesses(n.proc) }
		n.run(pid, fakeProcess{200, "/" + base + "/podweb/" + appID, [4]int{20, 31, 32, 33}})
		add := func(id string) (c v1alpha1.LookupContainer) {
			c.ID, c.SandboxID = id, sandboxID
			if ok, err := n.AddHandles(n.t.Context(), &c, time.Now()); err != nil || ok != (c.PID != 0) {
				t.Errorf("%v, %v", ok, err)
			}
			return c
		}
		if c := add(appID); c.PID != pid || c.StartTime != 200 || c.CgroupID == 0 || c.MntNS != 31 || reads != 0 {
			t.Errorf("%+v, with %d readings", c, reads)
		}
		if _, id := n.firsts.find(pid, 200, time.Time{}); id != appID { // a lookup finds it after its end
			t.Errorf("the process was the first one of %q", id)
		}
		if c := add(otherID); c.PID != 0 || reads == 0 { // its cgroup has no process
			t.Errorf("%+v, with %d readings", c, reads)
		}
		n.run(pid, fakeProcess{200, "/" + base + "/podweb/" + otherID, [4]int{20, 31, 32, 33}}) // it has moved
		if c := add(appID); c.PID != 0 {
			t.Errorf("%+v", c)
		}
	})
}
