// Package live runs podconfigd beside real kubelets of several minor versions, through upgrades.
package live

import (
	"bufio"
	"context"
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
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// pods are the static pods. Their UIDs differ in each minor. Only the pod own has a UID of its own.
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
	flags        []string
	runtime      *components.Runtime
	kubelet      *components.Kubelet
	program, ctl string
	cmd          *exec.Cmd
	client       *client.Client

	mu    sync.Mutex
	saw   []line
	has   map[types.UID]*v1.Pod // the pods of the subscriber
	last  *v1alpha1.Update      // the last update with a revision
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
	w := &world{dir: testutil.ShortDir(t), program: testutil.MustProgram(t, ".", "./cmd/podconfigd"), ctl: testutil.MustProgram(t, ".", "./cmd/podconfigctl"), runtime: components.StartRuntime(t, components.Containerd)}
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
	w.flags = []string{"--kubelet-presence", "present"} // it does not have the default port, and there are no mirror pods
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
	w.everything(t, theirs)
	w.end(t)
}

// TestUpgrades upgrades the kubelet and rolls it back, while podconfigd runs and while it is down. Its health check
// shows that the kubelet is there.
func TestUpgrades(t *testing.T) { newWorld(t).upgrade(t, "--healthz-port=10248") }

// TestUpgradesWithAnAPIServer does the same with an apiserver, which has the Node and mirror pods. They show that
// the kubelet is there: its health check has another port.
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
	theirs := w.check(t, first, "at the start")
	for minor := range strings.SplitSeq(others, ",") {
		before := theirs
		w.begin()
		w.kubelet.Replace(t, minor)
		t.Logf("the kubelet %s answers after %v", minor, time.Since(w.began).Round(time.Millisecond))
		theirs = w.check(t, minor, "while podconfigd runs")
		lines := w.lines()
		w.oneSwitch(t, before, theirs, lines)
		w.cameToRun(t, before, theirs, lines)
	}
	for minor := range strings.SplitSeq(others, ",") {
		w.end(t)
		before, last := theirs, w.last
		w.kubelet.Replace(t, minor)
		w.settled(t)
		w.start(t)
		theirs = w.check(t, minor, "while podconfigd is down")
		w.oneSwitch(t, before, theirs, w.resumed(t, last))
	}
	w.end(t)
}

func (w *world) manifests() string { return filepath.Join(w.dir, "manifests") }

// start starts podconfigd and a subscriber.
func (w *world) start(t *testing.T) {
	t.Helper()
	socket := filepath.Join(w.dir, "s")
	w.cmd = exec.Command(w.program, append(slices.Clone(w.flags), "--pod-manifest-path", w.path, "--hostname-override", "node1",
		"--socket", socket, "--container-runtime-endpoint", "unix://"+w.runtime.Socket, "--node-ip", "192.0.2.7", "--state-dir", filepath.Join(w.dir, "state"))...)
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
	w.has = make(map[types.UID]*v1.Pod)
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	w.ended = make(chan struct{})
	go w.subscribe(ctx)
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

// check waits until podconfigd shows what the kubelet runs.
func (w *world) check(t *testing.T, minor, when string) map[string]*v1.Pod {
	t.Helper()
	testutil.Eventually(t, func() error {
		status, err := w.client.Status(t.Context())
		if err != nil {
			return err
		}
		if k := status.Kubelet; k == nil || k.Rules != minor || k.Source != "sandboxes" || !k.Present {
			return fmt.Errorf("podconfigd found %+v, want %s", k, minor)
		}
		return nil
	})
	found := time.Since(w.began)
	var theirs map[string]*v1.Pod
	testutil.Eventually(t, func() (err error) {
		if theirs, err = w.runs(t); err == nil {
			err = w.same(t, theirs)
		}
		return err
	})
	t.Logf("kubelet %s, %s: found after %v, all the same after %v", minor, when, found.Round(time.Millisecond), time.Since(w.began).Round(time.Millisecond))
	w.everything(t, theirs)
	return theirs
}

// everything checks what depends on the UIDs.
func (w *world) everything(t *testing.T, theirs map[string]*v1.Pod) {
	t.Helper()
	w.stories(t, theirs)
	w.cgroups(t)
	w.lookups(t, theirs)
	cleanups := w.cleanups(t)
	w.restart(t, theirs["plain-node1"])
	testutil.Eventually(t, func() error { return w.subscriberHas(theirs) })
	testutil.Until(t, "podconfigd looks for orphans", func() bool { return w.cleanups(t) > cleanups })
	w.noOrphans(t, theirs)
}

// same compares the UIDs, the containers and the status of the daemon.
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

// static returns the pods of podconfigd, without mirror pods.
func (w *world) static(t *testing.T) ([]v1.Pod, error) {
	t.Helper()
	list, err := w.client.Pods(t.Context())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod v1.Pod) bool { return pod.Annotations[v1.MirrorPodAnnotationKey] != "" }), nil
}

// sameUIDs compares the UIDs and the containers, all of which run. Lookups by IP take one.
func (w *world) sameUIDs(t *testing.T, theirs map[string]*v1.Pod) error {
	t.Helper()
	ours, err := w.static(t)
	if err != nil {
		return err
	}
	if len(ours) != len(theirs) {
		return fmt.Errorf("%d pods, the kubelet has %d", len(ours), len(theirs))
	}
	for i := range ours {
		pod := &ours[i]
		other := theirs[pod.Name]
		switch {
		case other == nil:
			return fmt.Errorf("the kubelet does not have %s", pod.Name)
		case other.UID != pod.UID:
			return fmt.Errorf("%s: the kubelet's UID is %s, ours %s", pod.Name, other.UID, pod.UID)
		case other.Namespace != pod.Namespace, pod.Status.PodIP == "":
			return fmt.Errorf("%s: namespace %s, IP %q", pod.Name, pod.Namespace, pod.Status.PodIP)
		}
		want, err := containers(other)
		if err != nil {
			return err
		}
		got, err := containers(pod)
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s: containers %v, want %v", pod.Name, got, want)
		}
	}
	return nil
}

// cleanups returns how often podconfigd looked for orphans.
func (w *world) cleanups(t *testing.T) (count int) {
	t.Helper()
	body, err := w.client.Get(t.Context(), "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	const name = "podconfigd_sync_loop_housekeeping_duration_seconds_count"
	for lines := bufio.NewScanner(body); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), name+" %d", &count); err == nil {
			return count
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
