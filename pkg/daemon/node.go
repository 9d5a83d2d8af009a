package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
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

const (
	// nameTimeout is how long a machine without a name of its own may take to get one after the start, and namePeriod how often
	// its name is read in that time.
	nameTimeout = time.Minute
	namePeriod  = 200 * time.Millisecond
)

// placeholders are the names of machines that have none yet: those of Linux, systemd and the distributions.
var placeholders = []string{"", "(none)", "localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6"}

// hostname is os.Hostname; tests replace it.
var hostname = os.Hostname

// unnamed returns the name of the machine and whether it is only a placeholder. With a configured name, it does not matter.
func (c *Config) unnamed() (name string, is bool) {
	name, err := hostname()
	name = strings.ToLower(strings.TrimSpace(name))
	return name, c.HostnameOverride == "" && err == nil && slices.Contains(placeholders, name)
}

// Unnamed reports whether the name of the node would be one that machines have only until they get their own. Call
// AwaitName then, before New.
func (c *Config) Unnamed() bool {
	_, is := c.unnamed()
	return is
}

var errNamed = errors.New("the machine has a name")

// AwaitName waits until the machine has a name of its own, for at most a minute. The names and UIDs of static pods, and the state
// directory, belong to the name of the node, so no source is read yet. Meanwhile, the sockets answer: the status says what is
// missing, and /readyz fails. Without a service manager that has the sockets, that is: their clients wait. If the configuration is
// not valid or an address is in use, it does not wait, and returns the error.
func AwaitName(ctx context.Context, c Config) error { //nolint:gocritic // it is called once, like New
	logger := klog.FromContext(ctx)
	name, _ := c.unnamed()
	c.waiting = fmt.Sprintf("waiting until %s for the name of the machine, which is %q: names and UIDs of static pods contain it; set --hostname-override to start at once",
		time.Now().Add(nameTimeout).Local().Format(time.TimeOnly), name)
	logger.Info("The machine has no name of its own yet; waiting for it. To start at once, set --hostname-override", "hostname", name, "timeout", nameTimeout)
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() {
		err := c.serveUnnamed(waiting)
		if err != nil {
			stop(err) // there is nothing to wait for
		}
		ended <- err
	}()
	stop(c.awaitName(waiting))
	err := <-ended
	switch name, is := c.unnamed(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case is:
		logger.Info("The machine still has no name of its own; static pods get this one. To give the node another, set --hostname-override", "hostname", name)
	}
	return nil
}

// awaitName waits for the name. It returns an error when that is over.
func (c *Config) awaitName(ctx context.Context) error {
	for until := time.Now().Add(nameTimeout); time.Now().Before(until); {
		if err := await.For(ctx, namePeriod); err != nil {
			return err
		}
		if !c.Unnamed() {
			break
		}
	}
	return errNamed
}

// serveUnnamed serves the sockets of a daemon that reads nothing and writes nothing, until the context is done.
func (c Config) serveUnnamed(ctx context.Context) error { //nolint:gocritic // New takes a value too
	if c.SocketActivation && os.Getenv("LISTEN_FDS") != "" {
		return nil // the sockets are passed once
	}
	unnamed := c
	unnamed.PodConfigdConfiguration = *c.DeepCopy()
	unnamed.HostnameOverride = "localhost"
	unnamed.StateDir, unnamed.CreateMirrorPods = "", false
	unnamed.NotifyServiceManager = false // it waits
	d, err := New(unnamed)
	if err != nil {
		return err
	}
	if err = d.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// nameProblem adds a problem if the daemon waits for the name of the machine, or if that has changed. Like the kubelet, it keeps the
// name that it started with.
func (d *Daemon) nameProblem(status *v1alpha1.Status) {
	if d.config.waiting != "" {
		status.Problems = append(status.Problems, d.config.waiting)
		return
	}
	if name, _ := d.config.unnamed(); d.config.HostnameOverride == "" && name != "" && name != string(d.node) {
		status.Problems = append(status.Problems, fmt.Sprintf(
			"the host name is now %q, and the node is %s until podconfigd is restarted: then the static pods get other names; to keep them, set --hostname-override=%[2]s", name, d.node))
	}
}
