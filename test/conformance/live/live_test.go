// Package live runs podconfigd beside real kubelets of several minor versions, through upgrades.
package live

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
)

// pods are the static pods. Their UIDs differ in each minor, but for own, which has one of its own.
var pods = map[string]string{
	"plain": `metadata: {name: plain}
spec: {hostNetwork: true, terminationGracePeriodSeconds: 0, containers: [{name: c, image: IMAGE}]}`,
	"labeled": `metadata: {name: labeled, labels: {app: x}, annotations: {a: b}}
spec: {hostNetwork: true, terminationGracePeriodSeconds: 0, containers: [{name: c, image: IMAGE}, {name: d, image: IMAGE}]}`,
	"mounted": `metadata: {name: mounted, namespace: kube-system}
spec: {hostNetwork: true, hostPID: true, terminationGracePeriodSeconds: 0, volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: IMAGE, volumeMounts: [{name: v, mountPath: /v}]}]}`,
	"sized": `metadata: {name: sized}
spec: {hostNetwork: true, terminationGracePeriodSeconds: 0, resources: {limits: {cpu: 500m, memory: 64Mi}}, containers: [{name: c, image: IMAGE}]}`,
	"own": `metadata: {name: own, uid: 11111111-2222-3333-4444-555555555555}
spec: {hostNetwork: true, terminationGracePeriodSeconds: 0, containers: [{name: c, image: IMAGE}]}`,
}

var kubelets = flag.String("kubelets", "1.34,1.36,1.37,1.36,1.34", "minor versions of the kubelets, in their order")

// ops are all but SYNC.
var ops = []v1alpha1.Op{
	v1alpha1.OpAdd, v1alpha1.OpUpdate, v1alpha1.OpRemove, v1alpha1.OpDelete, v1alpha1.OpReconcile,
	v1alpha1.OpPLEG, v1alpha1.OpHousekeeping, v1alpha1.OpBookmark,
}

// world is a node.
type world struct {
	dir string
	// path is the path of the manifests of podconfigd.
	path string
	// flags are further flags of podconfigd.
	flags   []string
	runtime *components.Runtime
	kubelet *components.Kubelet
	cmd     *exec.Cmd
	client  *client.Client

	mu    sync.Mutex
	lines []string
	began time.Time
	stop  context.CancelFunc
	ended chan struct{}
}

// newWorld returns a node with the manifests and a runtime.
func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("runs kubelets, which takes root")
	}
	w := &world{dir: testutil.ShortDir(t), runtime: components.StartRuntime(t, components.Containerd)}
	w.path = w.manifests()
	if err := os.Mkdir(w.manifests(), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, spec := range pods {
		manifest := "apiVersion: v1\nkind: Pod\n" + strings.ReplaceAll(spec, "IMAGE", components.Image) + "\n"
		if err := os.WriteFile(filepath.Join(w.manifests(), name+".yaml"), []byte(manifest), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestAnotherPath gives podconfigd another path of the manifests, so that no rules give the UIDs of the kubelet.
// It takes them from the sandboxes, and says so.
func TestAnotherPath(t *testing.T) {
	w := newWorld(t)
	w.path = filepath.Join(w.dir, "link")
	if err := os.Symlink(w.manifests(), w.path); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(*kubelets, ",")
	w.kubelet = components.StartKubeletVersion(t, w.runtime, first, "node1", w.manifests())
	theirs := w.settled(t)
	w.start(t)
	testutil.Eventually(t, func() error { return w.sameUIDs(t, theirs) })
	status, err := w.client.Status(t.Context())
	if err != nil || status.Kubelet.OtherUIDs != len(pods)-1 || status.Kubelet.Detail == "" {
		t.Errorf("%+v, %v", status.Kubelet, err)
	}
	w.lookups(t, theirs)
	w.noOrphans(t)
	w.end(t)
}

// TestUpgrades upgrades the kubelet and rolls it back, while podconfigd runs and while it is down.
func TestUpgrades(t *testing.T) { newWorld(t).upgrade(t) }

// TestUpgradesWithAnAPIServer does the same with an apiserver, which has the Node and mirror pods.
func TestUpgradesWithAnAPIServer(t *testing.T) {
	w := newWorld(t)
	cluster := components.Start(t)
	w.flags = []string{"--kubeconfig", cluster.TokenKubeconfig(t, filepath.Join(w.dir, "podconfigd.conf"), components.User)}
	w.upgrade(t, "--kubeconfig="+cluster.Kubeconfig(t, filepath.Join(w.dir, "kubelet.conf"), "system:node:node1", "system:masters"))
}

func (w *world) upgrade(t *testing.T, flags ...string) {
	t.Helper()
	first, others, _ := strings.Cut(*kubelets, ",")
	w.kubelet = components.StartKubeletVersion(t, w.runtime, first, "node1", w.manifests(), flags...)
	w.settled(t)
	w.start(t)
	w.check(t, first, "at the start")
	for minor := range strings.SplitSeq(others, ",") {
		w.begin()
		w.kubelet.Replace(t, minor)
		t.Logf("the kubelet %s answers after %v", minor, time.Since(w.began).Round(time.Millisecond))
		w.check(t, minor, "while podconfigd runs")
	}
	for minor := range strings.SplitSeq(others, ",") {
		w.end(t)
		w.kubelet.Replace(t, minor)
		w.settled(t)
		w.start(t)
		w.check(t, minor, "while podconfigd is down")
	}
	w.end(t)
}

func (w *world) manifests() string { return filepath.Join(w.dir, "manifests") }

// start starts podconfigd and a subscriber.
func (w *world) start(t *testing.T) {
	t.Helper()
	socket := filepath.Join(w.dir, "s")
	w.cmd = exec.Command(testutil.MustProgram(t, ".", "./cmd/podconfigd"), append(slices.Clone(w.flags), "--pod-manifest-path", w.path, "--hostname-override", "node1",
		"--socket", socket, "--container-runtime-endpoint", "unix://"+w.runtime.Socket, "--node-ip", "192.0.2.7", "--state-dir", filepath.Join(w.dir, "state"),
		"--kubelet-presence", "present")...)
	log := &testutil.Buffer{}
	w.cmd.Stderr = log
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd := w.cmd
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("podconfigd's log:\n%s", log)
		}
	})
	w.client = client.New(socket)
	w.begin()
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	w.ended = make(chan struct{})
	go w.subscribe(ctx)
}

// subscribe notes what a subscriber sees.
func (w *world) subscribe(ctx context.Context) {
	defer close(w.ended)
	for u, err := range w.client.Updates(ctx, client.Options{Ops: ops, NoMirrorPods: true}) {
		if err != nil {
			continue // until the socket is there
		}
		var names []string
		for _, pod := range u.Pods {
			names = append(names, fmt.Sprintf("%s %.8s", pod.Name, pod.UID))
		}
		slices.Sort(names)
		event := ""
		if u.Event != nil {
			event = " " + u.Event.Type
		}
		w.mu.Lock()
		w.lines = append(w.lines, fmt.Sprintf("%8.3f s  %s%s %s", time.Since(w.began).Seconds(), u.Op, event, strings.Join(names, ", ")))
		w.mu.Unlock()
	}
}

// begin starts to count the time and the lines.
func (w *world) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began, w.lines = time.Now(), nil
}

func (w *world) end(t *testing.T) {
	t.Helper()
	w.stop()
	<-w.ended
	w.client.CloseIdleConnections()
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("podconfigd ended with %v", err)
	}
}

// settled waits until the kubelet runs all pods, each in one sandbox.
func (w *world) settled(t *testing.T) map[string]*v1.Pod {
	t.Helper()
	var theirs map[string]*v1.Pod
	testutil.Eventually(t, func() error {
		var err error
		if theirs, err = w.kubelet.Pods(t); err != nil {
			return err
		}
		list, err := w.runtime.CRI.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
		if err != nil {
			return err
		}
		ready := map[string]int{}
		for _, s := range list.GetItems() {
			pod := theirs[s.GetMetadata().GetName()]
			if s.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
				continue
			}
			if pod == nil || string(pod.UID) != s.GetMetadata().GetUid() {
				return fmt.Errorf("sandbox of %s is still there", s.GetMetadata().GetName())
			}
			ready[pod.Name]++
		}
		if len(theirs) != len(pods) || len(ready) != len(pods) {
			return fmt.Errorf("the kubelet has %d pods and %d sandboxes", len(theirs), len(ready))
		}
		for _, pod := range theirs {
			if pod.Status.Phase != v1.PodRunning {
				return fmt.Errorf("%s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
	return theirs
}

// check waits until podconfigd shows what the kubelet runs.
func (w *world) check(t *testing.T, minor, when string) {
	t.Helper()
	var found time.Duration
	var theirs map[string]*v1.Pod
	testutil.Eventually(t, func() error {
		status, err := w.client.Status(t.Context())
		if err != nil {
			return err
		}
		if k := status.Kubelet; k == nil || k.Rules != minor || k.Source != "sandboxes" {
			return fmt.Errorf("podconfigd found %+v, want %s", k, minor)
		}
		found = time.Since(w.began)
		return nil
	})
	theirs = w.settled(t)
	testutil.Eventually(t, func() error { return w.same(t, theirs) })
	t.Logf("kubelet %s, %s: found after %v, all the same after %v", minor, when, found.Round(time.Millisecond), time.Since(w.began).Round(time.Millisecond))
	w.lookups(t, theirs)
	w.noOrphans(t)
}

// noOrphans shows what a subscriber saw. HOUSEKEEPING names nothing.
func (w *world) noOrphans(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("a subscriber saw:\n%s", strings.Join(w.lines, "\n"))
	for _, line := range w.lines {
		if _, orphans, is := strings.Cut(line, string(v1alpha1.OpHousekeeping)); is && strings.TrimSpace(orphans) != "" {
			t.Errorf("HOUSEKEEPING is not empty: %s", line)
		}
	}
}

// same compares the UIDs, the phases and the status of the daemon.
func (w *world) same(t *testing.T, theirs map[string]*v1.Pod) error {
	t.Helper()
	if err := w.sameUIDs(t, theirs); err != nil {
		return err
	}
	status, err := w.client.Status(t.Context())
	if err == nil && (status.Kubelet.OtherUIDs != 0 || status.Kubelet.Detail != "") {
		err = fmt.Errorf("%+v", status.Kubelet)
	}
	return err
}

// sameUIDs compares the UIDs and the phases.
func (w *world) sameUIDs(t *testing.T, theirs map[string]*v1.Pod) error {
	t.Helper()
	list, err := w.client.Pods(t.Context())
	if err != nil {
		return err
	}
	list.Items = slices.DeleteFunc(list.Items, func(pod v1.Pod) bool { return pod.Annotations[v1.MirrorPodAnnotationKey] != "" })
	for i := range list.Items {
		pod := &list.Items[i]
		other := theirs[pod.Name]
		switch {
		case other == nil:
			return fmt.Errorf("the kubelet does not have %s", pod.Name)
		case other.UID != pod.UID:
			return fmt.Errorf("%s: the kubelet's UID is %s, ours %s", pod.Name, other.UID, pod.UID)
		case other.Namespace != pod.Namespace, pod.Status.Phase != v1.PodRunning:
			return fmt.Errorf("%s: namespace %s, phase %s", pod.Name, pod.Namespace, pod.Status.Phase)
		}
	}
	if len(list.Items) != len(theirs) {
		return fmt.Errorf("%d pods, the kubelet has %d", len(list.Items), len(theirs))
	}
	return nil
}

// lookups looks each container up in each way, as agents do.
func (w *world) lookups(t *testing.T, theirs map[string]*v1.Pod) {
	t.Helper()
	list, err := w.runtime.CRI.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for _, c := range list.GetContainers() {
		name := c.GetLabels()["io.kubernetes.pod.name"]
		if pod := theirs[name]; pod == nil || c.GetLabels()["io.kubernetes.pod.uid"] != string(pod.UID) {
			continue // it ends
		}
		pid := w.runtime.PID(t, c.GetId())
		cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for what, query := range map[string]client.LookupQuery{
			"pid": {PID: pid}, "container": {ContainerID: c.GetId()}, "cgroup": {Cgroup: string(cgroup)},
			"sandbox": {ContainerID: c.GetPodSandboxId()}, "uid": {PodUID: string(theirs[name].UID)},
		} {
			query.Wait = 5 * time.Second
			begin := time.Now()
			answer, err := w.client.Lookup(t.Context(), query)
			took = append(took, time.Since(begin))
			switch {
			case err != nil:
				t.Errorf("%s of %s: %v", what, name, err)
			case len(answer.Pods) != 1 || answer.Pods[0].Name != name || answer.Pods[0].Source != "file" || answer.Pods[0].UID != string(theirs[name].UID):
				t.Errorf("%s of %s: %+v", what, name, answer.Pods)
			}
		}
	}
	if len(took) == 0 {
		t.Fatal(errors.New("there are no containers"))
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%d waiting lookups: median %v, p99 %v", len(took), took[len(took)/2], p99)
	if p99 > time.Second {
		t.Errorf("waiting lookups wait: p99 %v", p99)
	}
}
