package daemon

import (
	"context"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/podconfigd/podconfigd/internal/await"
)

const (
	// nodePeriod is the interval at which the daemon reads its own information about the node again.
	nodePeriod = 30 * time.Second
	// versionTimeout is the time in which the container runtime must tell its version.
	versionTimeout = 2 * time.Second
)

// node has the object of the node. It is the object in the apiserver or, without one, an object with what the daemon
// itself knows.
type node struct {
	name types.NodeName
	// configured means that addresses returns the addresses in the configuration.
	configured bool
	addresses  *addresses
	// version returns the name and version of the container runtime; nil without one.
	version func(context.Context) (string, error)
	// put replaces the object in the journal.
	put func(*v1.Node)

	mu sync.Mutex
	// remote is the object of the apiserver; nil if there is none.
	remote *v1.Node
	// runtime is the last known version of the container runtime.
	runtime string
}

// local returns an object with what the daemon itself knows about the node. It has no conditions and nothing
// allocatable: only a kubelet decides on these.
//
// kubelet: pkg/kubelet/kubelet_node_status.go initialNode, pkg/kubelet/nodestatus.
func (n *node) local() *v1.Node {
	info := v1.NodeSystemInfo{
		OperatingSystem: goruntime.GOOS, Architecture: goruntime.GOARCH,
		KernelVersion: lineOf("/proc/sys/kernel/osrelease"), BootID: lineOf("/proc/sys/kernel/random/boot_id"),
		ContainerRuntimeVersion: n.runtime,
	}
	addresses := []v1.NodeAddress{}
	for _, address := range n.addresses.current() {
		addresses = append(addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: address})
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: string(n.name), Labels: map[string]string{
			v1.LabelHostname: string(n.name), v1.LabelOSStable: info.OperatingSystem, v1.LabelArchStable: info.Architecture,
		}},
		Status: v1.NodeStatus{
			Capacity:  capacity(),
			Addresses: append(addresses, v1.NodeAddress{Type: v1.NodeHostName, Address: string(n.name)}),
			NodeInfo:  info,
		},
	}
}

// capacity returns the processors and the memory of the machine.
func capacity() v1.ResourceList {
	all := v1.ResourceList{}
	if cpus, err := cpuset.Parse(lineOf("/sys/devices/system/cpu/online")); err == nil && !cpus.IsEmpty() {
		all[v1.ResourceCPU] = *resource.NewQuantity(int64(cpus.Size()), resource.DecimalSI)
	}
	// It is the first line: "MemTotal:       16384256 kB".
	if f := strings.Fields(lineOf("/proc/meminfo")); len(f) == 3 && f[0] == "MemTotal:" {
		if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			all[v1.ResourceMemory] = *resource.NewQuantity(kib<<10, resource.BinarySI)
		}
	}
	return all
}

// lineOf returns the first line of a file, or nothing if it can't be read.
func lineOf(path string) string {
	data, _ := os.ReadFile(path) // not all systems have it
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// setRemote sets the object of the apiserver; nil if it has none.
func (n *node) setRemote(remote *v1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remote = remote
	n.putCurrent()
}

// hostIPs returns the host IPs of pods: the addresses in the configuration, or else in the node's object in the
// apiserver, or else those of the machine.
//
// kubelet: pkg/kubelet/kubelet_getters.go getHostIPsAnyWay.
func (n *node) hostIPs() []string {
	if remote := n.inAPIServer(); remote != nil && !n.configured {
		if ips := hostIPs(remote); len(ips) > 0 {
			return ips
		}
	}
	return n.addresses.current()
}

// inAPIServer returns the object of the apiserver, or nil if it has none.
func (n *node) inAPIServer() *v1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.remote
}

// moved puts the addresses of the machine into the object at once.
func (n *node) moved() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.putCurrent()
}

// putCurrent requires mu.
func (n *node) putCurrent() {
	if n.remote != nil {
		n.put(n.remote)
	} else {
		n.put(n.local())
	}
}

// run reads the daemon's own information about the node every nodePeriod, until the context is done.
func (n *node) run(ctx context.Context) error {
	n.addresses.ask(ctx)
	for {
		n.refresh(ctx)
		if err := await.For(ctx, nodePeriod); err != nil {
			return err
		}
	}
}

func (n *node) refresh(ctx context.Context) {
	n.mu.Lock()
	remote := n.remote
	n.mu.Unlock()
	if remote != nil {
		return // it comes with a watch
	}
	version := ""
	if n.version != nil {
		ctx, cancel := context.WithTimeout(ctx, versionTimeout)
		defer cancel()
		version, _ = n.version(ctx) // the PLEG reports a runtime that does not answer
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if version != "" {
		n.runtime = version
	}
	n.putCurrent()
}
