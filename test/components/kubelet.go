package components

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Kubelet is a kubelet, usually without an apiserver.
type Kubelet struct {
	*Process
	// ReadOnly is the host and port of its read-only port.
	ReadOnly string
	// Root is its root directory, PodsAPI the socket of its Pods API, which 1.37 has, and PodResources that of its PodResources API.
	Root, PodsAPI, PodResources string
}

// Kubelets are the versions of StartKubeletVersion: component names, by minor.
var Kubelets = map[string]string{"1.34": "kubelet-1.34", "1.36": "kubelet-1.36", "1.37": "kubelet"}

// sysctls are what a kubelet sets on its machine.
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// StartKubelet runs a kubelet until the test ends. It runs the static pods of a folder in the
// runtime, and has a mount namespace of its own. What it changes on the machine is put back.
func StartKubelet(tb testing.TB, r *Runtime, node, manifests string) *Kubelet {
	tb.Helper()
	return StartKubeletVersion(tb, r, "1.37", node, manifests)
}

// StartKubeletVersion is StartKubelet for a minor version, with further flags.
func StartKubeletVersion(tb testing.TB, r *Runtime, minor, node, manifests string, flags ...string) *Kubelet {
	tb.Helper()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		tb.Fatal(err)
	}
	alone(tb)
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { removeTree(tb, dir) })
	restoreMachine(tb)
	// Their cgroups are removed after the containers.
	tb.Cleanup(func() { r.removeAll(tb) })

	k := &Kubelet{ReadOnly: FreeAddress(tb), Root: filepath.Join(dir, "root")}
	k.PodsAPI = filepath.Join(k.Root, "pods-api", "pods-api.sock")
	k.PodResources = filepath.Join(k.Root, "pod-resources", "kubelet.sock")
	_, port, _ := net.SplitHostPort(k.ReadOnly)
	_, health, _ := net.SplitHostPort(FreeAddress(tb))
	_, secure, _ := net.SplitHostPort(FreeAddress(tb))
	config := writeFile(tb, filepath.Join(dir, "config.yaml"), fmt.Appendf(nil, kubeletConfig, dir, manifests, r.Socket, port, health, secure))
	k.Process = newProcess(tb, dir, Kubelets[minor], append([]string{
		"--config=" + config, "--root-dir=" + k.Root, "--cert-dir=" + dir + "/pki", "--hostname-override=" + node,
	}, flags...)...)
	k.args = append([]string{"--mount", "--propagation", "private", k.name}, k.args...)
	k.name = unshare
	k.start(tb)
	return k
}

// alone waits until no other test has a kubelet on this machine, and keeps others from starting one until the test ends:
// a kubelet ends what runs in the cgroups of pods that it does not have. go test runs packages at the same time.
func alone(tb testing.TB) {
	tb.Helper()
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "podconfigd-kubelet.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		tb.Fatalf("waiting for the kubelets of other tests: %v", err)
	}
}

// program is the index of the kubelet's path in the arguments of unshare.
const program = 3

// Replace ends the kubelet and starts one of another minor version in its place.
func (k *Kubelet) Replace(tb testing.TB, minor string) {
	tb.Helper()
	name := Kubelets[minor]
	path := filepath.Join(folder(tb, name), name)
	k.Kill(tb)
	k.args[program] = path
	k.start(tb)
}

func (k *Kubelet) start(tb testing.TB) {
	tb.Helper()
	k.Start(tb)
	await(tb, "the kubelet", func() error {
		_, err := k.Pods(tb)
		return err
	})
}

// kubeletConfig has placeholders for the folder, the manifests, the runtime's socket, and
// the ports.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: %[2]s
containerRuntimeEndpoint: unix://%[3]s
podLogsDir: %[1]s/logs
volumePluginDir: %[1]s/plugins
address: 127.0.0.1
port: %[6]s
readOnlyPort: %[4]s
healthzPort: %[5]s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
fileCheckFrequency: 1s
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%", pid.available: "0%%"}
`

// restoreMachine puts back the sysctls, and removes the cgroups and the folder of device
// plugins, when the test ends.
func restoreMachine(tb testing.TB) {
	tb.Helper()
	for _, name := range sysctls {
		path := "/proc/sys/" + name
		before, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		tb.Cleanup(func() {
			if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, before) {
				return
			}
			if err := os.WriteFile(path, before, 0o644); err != nil {
				tb.Errorf("putting back a sysctl: %v", err)
			}
		})
	}
	_, err := os.Stat("/var/lib/kubelet")
	missing := os.IsNotExist(err)
	tb.Cleanup(func() {
		if missing {
			removeTree(tb, "/var/lib/kubelet")
		}
		roots, _ := filepath.Glob("/sys/fs/cgroup/*/kubepods")
		for _, root := range append(roots, "/sys/fs/cgroup/kubepods") {
			var dirs []string
			_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			for _, dir := range slices.Backward(dirs) {
				_ = os.Remove(dir)
			}
		}
	})
}

func removeTree(tb testing.TB, dir string) {
	tb.Helper()
	if err := os.RemoveAll(dir); err != nil {
		tb.Errorf("removing what the kubelet left: %v", err)
	}
}

// Pods returns the pods of the kubelet, by name.
func (k *Kubelet) Pods(tb testing.TB) (map[string]*v1.Pod, error) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, "http://"+k.ReadOnly+"/pods", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list v1.PodList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("decoding the kubelet's pods: %w", err)
	}
	pods := map[string]*v1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods, nil
}
