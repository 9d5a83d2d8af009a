package lookup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// fakeProcess is a process in the procfs of a test.
type fakeProcess struct {
	start  uint64
	cgroup string
	// namespaces are the inodes of its namespaces, in the order of the kinds. 0 is one that can't be read.
	namespaces [4]int
}

// run writes a process to the procfs.
func (n *node) run(pid int, p fakeProcess) {
	n.t.Helper()
	n.exit(pid)
	n.process(pid, p.start, "0::"+p.cgroup+"\n")
	dir := filepath.Join(n.proc, strconv.Itoa(pid))
	if err := os.Mkdir(filepath.Join(dir, "ns"), 0o755); err != nil {
		n.t.Fatal(err)
	}
	for k, inode := range p.namespaces {
		if inode == 0 {
			continue
		}
		if err := os.Symlink(fmt.Sprintf("%s:[%d]", kind(k).file(), inode), filepath.Join(dir, "ns", kind(k).file())); err != nil {
			n.t.Fatal(err)
		}
	}
}

// exit removes a process from the procfs.
func (n *node) exit(pid int) {
	n.t.Helper()
	if err := os.RemoveAll(filepath.Join(n.proc, strconv.Itoa(pid))); err != nil {
		n.t.Fatal(err)
	}
}

// ids of containers, which begin with a letter each.
var (
	sandboxID = strings.Repeat("a", 64)
	appID     = strings.Repeat("b", 64)
	sideID    = strings.Repeat("c", 64)
	otherID   = strings.Repeat("d", 64)
)

// cgroupOf returns the cgroup of a container of a pod.
func cgroupOf(pod, id string) string { return "/kubepods/pod" + pod + "/" + id }

// serves puts a pod with a sandbox and two containers, and one with one container, on the node.
func (n *node) serves() {
	n.runtime.set("web", "web", sandboxID+" - running", appID+" app running", sideID+" side running")
	n.runtime.set("other", "other", otherID+" app running")
	n.deliver(config.ADD, "file", pod("web", "10.0.0.1"), pod("other"))
	n.find(Query{ContainerID: "none", Wait: time.Second}) // lists
	n.run(1, fakeProcess{1, "/init.scope", [4]int{10, 11, 12, 13}})
	n.run(100, fakeProcess{100, cgroupOf("web", sandboxID), [4]int{20, 21, 22, 23}})
	n.run(101, fakeProcess{101, cgroupOf("web", appID), [4]int{20, 31, 32, 33}})
	n.run(102, fakeProcess{102, cgroupOf("web", sideID), [4]int{20, 41, 22, 43}})
	n.run(103, fakeProcess{103, cgroupOf("web", appID) + "/below", [4]int{29, 39, 32, 33}})
}

func TestNamespaces(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.serves()
		n.expect("file web - running", Query{NetNS: 20}) // the sandbox has the network of the pod
		n.expect("file web app running", Query{MntNS: 31})
		n.expect("file web app running", Query{PidNS: 32})
		n.expect("file web - running", Query{PidNS: 22}) // shared with a container
		n.expect("file web side running", Query{CgroupNS: 43})
		n.expect("file web app running", Query{NetNS: 29}) // made in the container
		n.expect("looking up netns 99: no process in a container has it", Query{NetNS: 99})
		n.expect("looking up mntns 20: no process in a container has it", Query{MntNS: 20})

		// The order of the processes does not matter. Without a sandbox, no container of several has the namespace.
		n.exit(100)
		n.pass(2 * fresh)
		n.expect("file web", Query{NetNS: 20})
		n.run(105, fakeProcess{100, cgroupOf("web", sandboxID), [4]int{20, 21, 22, 23}})
		n.pass(2 * fresh)
		n.expect("file web - running", Query{NetNS: 20})
	})
}

// The inodes of namespaces are reused at once, and so are PIDs at some time.
func TestReusedNamespaces(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.serves()
		n.expect("file web app running", Query{MntNS: 31})
		n.exit(101)
		n.expect("looking up mntns 31: no process in a container has it", Query{MntNS: 31})
		n.run(101, fakeProcess{500, cgroupOf("other", otherID), [4]int{50, 31, 52, 53}})
		n.expect("file other app running", Query{MntNS: 31})
		n.run(101, fakeProcess{500, cgroupOf("web", appID), [4]int{50, 31, 52, 53}}) // moved
		n.pass(2 * fresh)
		n.expect("file web app running", Query{MntNS: 31})
		n.run(101, fakeProcess{600, cgroupOf("other", otherID), [4]int{50, 31, 52, 53}}) // another process has PID and namespace
		n.expect("file other app running", Query{MntNS: 31})
		n.run(101, fakeProcess{600, cgroupOf("other", otherID), [4]int{50, 61, 52, 53}}) // it has unshared its mounts
		n.expect("looking up mntns 31: no process in a container has it", Query{MntNS: 31})
		n.run(101, fakeProcess{501, "/system.slice/ssh.service", [4]int{50, 31, 52, 53}})
		n.expect("looking up mntns 31: no process in a container has it", Query{MntNS: 31})
	})
}
