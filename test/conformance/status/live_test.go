package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

const nodeIP = "192.0.2.7"

// manifests are the pods of TestLiveKubelet, without what all have, and the phases in which
// they stay.
var manifests = map[string]struct {
	spec  string
	phase v1.PodPhase
}{
	"two":     {`containers: [{name: b, image: IMAGE}, {name: a, image: IMAGE}]`, v1.PodRunning},
	"init":    {`initContainers: [{name: i, image: IMAGE, args: [sleep, 2s]}], containers: [{name: c, image: IMAGE}]`, v1.PodRunning},
	"sidecar": {`initContainers: [{name: s, image: IMAGE, restartPolicy: Always}, {name: i, image: IMAGE, args: [exit, "0"]}], containers: [{name: c, image: IMAGE}]`, v1.PodRunning},
	"once":    {`restartPolicy: Never, containers: [{name: c, image: IMAGE, args: [sleep, 2s]}]`, v1.PodSucceeded},
	"fails":   {`restartPolicy: OnFailure, containers: [{name: c, image: IMAGE, args: [exit, "3"], restartPolicy: Never}, {name: d, image: IMAGE, args: [exit, "0"]}]`, v1.PodFailed},
	"noinit":  {`restartPolicy: Never, initContainers: [{name: i, image: IMAGE, args: [exit, "1"]}], containers: [{name: c, image: IMAGE}]`, v1.PodFailed},
	"crash":   {`containers: [{name: c, image: IMAGE, args: [sleep, 1s, "3"]}]`, v1.PodRunning},
	"missing": {`containers: [{name: c, image: "example.com/missing:1", imagePullPolicy: Never}, {name: d, image: IMAGE}]`, v1.PodPending},
	"probed":  {`containers: [{name: c, image: IMAGE, readinessProbe: {tcpSocket: {port: 1}}}]`, v1.PodRunning},
	"sized": {`containers: [{name: c, image: IMAGE, resources: {requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 300m, memory: 64Mi}}},` +
		`{name: d, image: IMAGE, volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}], volumes: [{name: v, emptyDir: {}}]`, v1.PodRunning},
}

// TestLiveKubelet runs a kubelet and podconfigd on the same manifests and the same runtime,
// and compares what both show at /pods.
func TestLiveKubelet(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("runs a kubelet, which takes root")
	}
	l := &live{dir: t.TempDir(), runtime: components.StartRuntime(t, components.Containerd)}
	if err := os.Mkdir(l.manifests(), 0o755); err != nil {
		t.Fatal(err)
	}
	l.startPodconfigd(t)
	l.kubelet = components.StartKubelet(t, l.runtime, "node1", l.manifests())

	for name, manifest := range manifests {
		l.put(t, name, manifest.spec)
	}
	for name, manifest := range manifests {
		l.same(t, name, func(pod *v1.Pod) bool {
			return pod.Status.Phase == manifest.phase && (name != "crash" || pod.Status.ContainerStatuses[0].RestartCount >= 2)
		})
	}

	restarted := func(pod *v1.Pod) bool {
		c := pod.Status.ContainerStatuses[0]
		return c.RestartCount == 1 && c.State.Running != nil && c.LastTerminationState.Terminated != nil
	}
	l.kill(t, "two-node1", "a")
	l.same(t, "two", restarted)
	before := l.uid(t, "sized")
	l.put(t, "sized", `containers: [{name: other, image: IMAGE}]`)
	testutil.Eventually(t, func() error {
		theirs, ours, err := l.pods(t)
		if err != nil {
			return err
		}
		a, b := theirs["sized-node1"], ours["sized-node1"]
		if a == nil || b == nil || a.UID != b.UID || string(a.UID) == before || len(a.Status.Conditions) != 0 || len(b.Status.Conditions) != 5 {
			return errors.New("only podconfigd has conditions of an edited pod while the old one ends: never seen")
		}
		return nil
	})
	l.same(t, "sized", func(pod *v1.Pod) bool { return string(pod.UID) != before && pod.Status.Phase == v1.PodRunning })
	if err := os.Remove(filepath.Join(l.manifests(), "once.yaml")); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, func() error {
		theirs, ours, err := l.pods(t)
		if err == nil && (theirs["once-node1"] != nil || ours["once-node1"] != nil) {
			err = fmt.Errorf("the removed pod is still there: %t, %t", theirs["once-node1"] != nil, ours["once-node1"] != nil)
		}
		return err
	})
}

type live struct {
	dir     string
	runtime *components.Runtime
	kubelet *components.Kubelet
	client  *http.Client
}

func (l *live) manifests() string { return filepath.Join(l.dir, "manifests") }

func (l *live) put(t *testing.T, name, spec string) {
	t.Helper()
	spec = strings.ReplaceAll(spec, "IMAGE", components.Image)
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {hostNetwork: true, terminationGracePeriodSeconds: 1, %s}\n", name, spec)
	temp := filepath.Join(l.dir, name)
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(l.manifests(), name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

func (l *live) startPodconfigd(t *testing.T) {
	t.Helper()
	program := testutil.MustProgram(t, ".", "./cmd/podconfigd")
	socket := filepath.Join(l.dir, "s")
	cmd := exec.Command(program, "--pod-manifest-path", l.manifests(), "--hostname-override", "node1", "--socket", socket,
		"--container-runtime-endpoint", "unix://"+l.runtime.Socket, "--node-ip", nodeIP)
	log := &testutil.Buffer{}
	cmd.Stderr, cmd.SysProcAttr = log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("podconfigd's log:\n%s", log)
		}
	})
	l.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	t.Cleanup(l.client.CloseIdleConnections)
}

// pods returns the pods of both, by name.
func (l *live) pods(t *testing.T) (theirs, ours map[string]*v1.Pod, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://podconfigd/pods", nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	var list v1.PodList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, nil, err
	}
	ours = map[string]*v1.Pod{}
	for i := range list.Items {
		ours[list.Items[i].Name] = &list.Items[i]
	}
	theirs, err = l.kubelet.Pods(t)
	return theirs, ours, err
}

// same waits until both have the pod with what is wanted, and the same status.
func (l *live) same(t *testing.T, name string, want func(*v1.Pod) bool) {
	t.Helper()
	samples, different := 0, 0
	testutil.Eventually(t, func() error {
		theirs, ours, err := l.pods(t)
		if err != nil {
			return err
		}
		a, b := theirs[name+"-node1"], ours[name+"-node1"]
		if a == nil || b == nil {
			return fmt.Errorf("%s: the kubelet has it: %t, podconfigd: %t", name, a != nil, b != nil)
		}
		samples++
		if diff := differs(a, b); diff != "" {
			different++
			return fmt.Errorf("%s: the kubelet's pod (-) differs from podconfigd's (+):\n%s", name, diff)
		}
		if !want(b) {
			return fmt.Errorf("%s: both have the status %s", name, asJSON(b.Status))
		}
		return nil
	})
	t.Logf("%s: the same after %d samples, of which %d differed", name, samples, different)
}

// differs compares the statuses. It leaves out what docs/explanation/kubelet-differences.md lists.
func differs(theirs, ours *v1.Pod) string {
	a, b := theirs.Status.DeepCopy(), ours.Status.DeepCopy()
	if b.HostIP != nodeIP || b.PodIP != nodeIP {
		return fmt.Sprintf("podconfigd has the addresses %q and %q", b.HostIP, b.PodIP)
	}
	b.HostIP, b.HostIPs, b.PodIP, b.PodIPs = "", nil, "", nil
	for _, status := range []*v1.PodStatus{a, b} {
		if status.StartTime == nil {
			return "no start time"
		}
		status.StartTime = nil
		for i := range status.Conditions {
			status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
	}
	for i := range min(len(a.ContainerStatuses), len(b.ContainerStatuses)) {
		leaveOutWaiting(&a.ContainerStatuses[i], &b.ContainerStatuses[i])
	}
	if slices.ContainsFunc(ours.Spec.Containers, func(container v1.Container) bool { return container.ReadinessProbe != nil }) {
		for _, status := range []*v1.PodStatus{a, b} {
			for i := range status.Conditions {
				status.Conditions[i].Message = ""
			}
		}
	}
	return cmp.Diff(string(theirs.UID), string(ours.UID)) + cmp.Diff(decoded(a), decoded(b))
}

// leaveOutWaiting takes the kubelet's reasons to wait out of a status.
func leaveOutWaiting(theirs, ours *v1.ContainerStatus) {
	if theirs.State.Waiting == nil {
		return
	}
	switch theirs.State.Waiting.Reason {
	case "CrashLoopBackOff":
		theirs.State = theirs.LastTerminationState
		ours.LastTerminationState, theirs.LastTerminationState = v1.ContainerState{}, v1.ContainerState{}
	case "ErrImageNeverPull":
		theirs.State.Waiting = &v1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
}

func decoded(status *v1.PodStatus) (value any) {
	if err := json.Unmarshal(asJSON(status), &value); err != nil {
		panic(err)
	}
	return value
}

func (l *live) uid(t *testing.T, name string) string {
	t.Helper()
	_, ours, err := l.pods(t)
	if err != nil {
		t.Fatal(err)
	}
	return string(ours[name+"-node1"].UID)
}

// kill stops a container behind the kubelet's back.
func (l *live) kill(t *testing.T, pod, name string) {
	t.Helper()
	list, err := l.runtime.CRI.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.name": pod, "io.kubernetes.container.name": name},
	}})
	if err != nil || len(list.GetContainers()) != 1 {
		t.Fatalf("%s of %s: %v, %v", name, pod, list.GetContainers(), err)
	}
	if _, err := l.runtime.CRI.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: list.GetContainers()[0].GetId()}); err != nil {
		t.Fatal(err)
	}
}
