package podsapi

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
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
)

// manifests are the pods of TestLive, and what each comes to.
var manifests = map[string]struct {
	spec string
	want func(*v1.PodStatus) bool
}{
	"plain": {`containers: [{name: c, image: IMAGE}]`, isReady},
	"probed": {`containers: [{name: c, image: IMAGE, startupProbe: {httpGet: {host: 127.0.0.1, port: PORT, path: /ok}, periodSeconds: 1},
  readinessProbe: {httpGet: {host: 127.0.0.1, port: PORT, path: /ok}, periodSeconds: 1}, livenessProbe: {httpGet: {host: 127.0.0.1, port: PORT, path: /ok}, periodSeconds: 1}}]`, isReady},
	"flapping": {`containers: [{name: c, image: IMAGE, readinessProbe: {httpGet: {host: 127.0.0.1, port: PORT, path: /flap}, periodSeconds: 1, failureThreshold: 1}}]`, nil},
	"unready":  {`containers: [{name: c, image: IMAGE, readinessProbe: {httpGet: {host: 127.0.0.1, port: PORT, path: /bad}, periodSeconds: 1}}]`, isRunning},
	"unstarted": {`containers: [{name: c, image: IMAGE, startupProbe: {httpGet: {host: 127.0.0.1, port: PORT, path: /bad}, periodSeconds: 1, failureThreshold: 600}}]`,
		isRunning},
	"unlive": {`containers: [{name: c, image: IMAGE, livenessProbe: {httpGet: {host: 127.0.0.1, port: PORT, path: /bad}, periodSeconds: 1, failureThreshold: 2}}]`,
		func(s *v1.PodStatus) bool {
			return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].RestartCount > 0
		}},
	"crash":    {`containers: [{name: c, image: IMAGE, args: [exit, "3"]}]`, waits("CrashLoopBackOff")},
	"noimage":  {`containers: [{name: c, image: "127.0.0.1:1/missing:1"}]`, waits("ImagePullBackOff")},
	"never":    {`containers: [{name: c, image: "example.com/missing:1", imagePullPolicy: Never}]`, waits("ErrImageNeverPull")},
	"noconfig": {`containers: [{name: c, image: IMAGE, securityContext: {runAsNonRoot: true}}]`, waits("CreateContainerConfigError")},
	"deadline": {`activeDeadlineSeconds: 5, containers: [{name: c, image: IMAGE}]`, func(s *v1.PodStatus) bool { return s.Reason == "DeadlineExceeded" }},
	"noinit": {`initContainers: [{name: i, image: IMAGE, args: [exit, "1"]}], containers: [{name: c, image: IMAGE}]`,
		func(s *v1.PodStatus) bool {
			return len(s.InitContainerStatuses) > 0 && s.InitContainerStatuses[0].State.Waiting != nil && s.InitContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
		}},
	"sidecar": {`initContainers: [{name: s, image: IMAGE, restartPolicy: Always, startupProbe: {httpGet: {host: 127.0.0.1, port: PORT, path: /ok}, periodSeconds: 1}},
  {name: i, image: IMAGE, args: [exit, "0"]}], containers: [{name: c, image: IMAGE}]`, isReady},
}

// steady are the pods that go on as they are while the kubelet is away.
var steady = []string{"plain", "probed", "unready", "unstarted", "never", "noconfig", "deadline", "sidecar"}

func isReady(s *v1.PodStatus) bool {
	return slices.ContainsFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

func isRunning(s *v1.PodStatus) bool { return s.Phase == v1.PodRunning }

func waits(reason string) func(*v1.PodStatus) bool {
	return func(s *v1.PodStatus) bool {
		return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].State.Waiting != nil && s.ContainerStatuses[0].State.Waiting.Reason == reason
	}
}

// node is a node with a kubelet and podconfigd.
type node struct {
	dir, port string
	runtime   *components.Runtime
	kubelet   *components.Kubelet
	cmd       *exec.Cmd
	client    *client.Client

	// theirs are the statuses that a direct client of the kubelet got, and ours those that a subscriber of podconfigd got.
	theirs, ours track
}

// track is the statuses of each pod, by name.
type track struct {
	mu   sync.Mutex
	pods map[string][]moment
}

type moment struct {
	at     time.Time
	status *v1.PodStatus
}

func (t *track) note(pod *v1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods == nil {
		t.pods = make(map[string][]moment)
	}
	t.pods[pod.Name] = append(t.pods[pod.Name], moment{time.Now(), withoutIPs(&pod.Status)})
}

// withoutIPs leaves out what a kubelet without an apiserver leaves empty.
func withoutIPs(s *v1.PodStatus) *v1.PodStatus {
	s = s.DeepCopy()
	s.HostIP, s.HostIPs, s.PodIP, s.PodIPs = "", nil, "", nil
	return s
}

// TestLive runs podconfigd beside a kubelet 1.37. Every field of the status is the kubelet's within a second of its event,
// also after each of them was killed.
func TestLive(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("runs a kubelet, which takes root")
	}
	n := &node{dir: testutil.ShortDir(t), runtime: components.StartRuntime(t, components.Containerd), port: probed(t)}
	if err := os.Mkdir(n.manifests(), 0o755); err != nil {
		t.Fatal(err)
	}
	n.startPodconfigd(t)
	n.kubelet = components.StartKubelet(t, n.runtime, "node1", n.manifests())
	link := filepath.Join(n.dir, "pods-api")
	if err := os.Symlink(n.kubelet.PodsAPI, link); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { n.watch(ctx) })
	running.Go(func() { n.subscribe(ctx) })
	for name := range manifests {
		n.put(t, name)
	}
	n.settle(t, true)
	n.logDelays(t)

	t.Log("podconfigd is killed")
	killed := time.Now()
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	n.startPodconfigd(t)
	n.settle(t, false)
	t.Log("the kubelet is killed")
	n.kubelet.Kill(t)
	n.stands(t)
	n.nothingBetween(t, killed)
	n.kubelet.Start(t)
	n.settle(t, false)
	n.cost(t)
	cancel()
	running.Wait()
	n.client.CloseIdleConnections()
}

func (n *node) manifests() string { return filepath.Join(n.dir, "manifests") }

// probed serves what the probes ask for.
func probed(t *testing.T) (port string) {
	t.Helper()
	var asked atomic.Int64
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" || r.URL.Path == "/flap" && asked.Add(1)/3%2 == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})}
	go func() { _ = server.Serve(l) }() // it ends with Close
	t.Cleanup(func() { _ = server.Close() })
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

func (n *node) put(t *testing.T, name string) {
	t.Helper()
	spec := strings.NewReplacer("IMAGE", components.Image, "PORT", n.port).Replace(manifests[name].spec)
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {hostNetwork: true, terminationGracePeriodSeconds: 1, %s}\n", name, spec)
	temp := filepath.Join(n.dir, name)
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(n.manifests(), name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

func (n *node) startPodconfigd(t *testing.T) {
	t.Helper()
	socket := filepath.Join(n.dir, "s")
	n.cmd = exec.Command(testutil.MustProgram(t, ".", "./cmd/podconfigd"), "--pod-manifest-path", n.manifests(), "--hostname-override", "node1",
		"--socket", socket, "--container-runtime-endpoint", "unix://"+n.runtime.Socket, "--node-ip", "192.0.2.7",
		"--state-dir", filepath.Join(n.dir, "state"), "--kubelet-pods-api", filepath.Join(n.dir, "pods-api"))
	log := &testutil.Buffer{}
	n.cmd.Stderr, n.cmd.SysProcAttr = log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd := n.cmd
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("podconfigd's log:\n%s", log)
		}
	})
	if n.client == nil {
		n.client = client.New(socket)
	}
}

// watch is a direct client of the kubelet.
func (n *node) watch(ctx context.Context) {
	for ; ctx.Err() == nil; <-time.After(10 * time.Millisecond) {
		_ = n.watchOnce(ctx) // until the kubelet is there again
	}
}

func (n *node) watchOnce(ctx context.Context) error {
	conn, err := n.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := podsv1alpha1.NewPodsClient(conn).WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		return err
	}
	initial := true
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		if event.GetType() == podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE {
			initial = false
			continue
		}
		var pod v1.Pod
		if err := pod.Unmarshal(event.GetPod()); err != nil {
			return err
		}
		if !initial && event.GetType() != podsv1alpha1.EventType_DELETED {
			n.theirs.note(&pod)
		}
	}
}

func (n *node) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+n.kubelet.PodsAPI, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// subscribe is a subscriber of podconfigd.
func (n *node) subscribe(ctx context.Context) {
	for u, err := range n.client.Updates(ctx, client.Options{}) {
		if err != nil {
			continue // until the socket is there
		}
		for _, pod := range u.Pods {
			n.ours.note(pod)
		}
	}
}

// both returns the pods of the kubelet and of podconfigd, by name.
func (n *node) both(t *testing.T) (theirs, ours map[string]*v1.Pod, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := n.dial()
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	list, err := n.client.Pods(ctx)
	if err != nil {
		return nil, nil, err
	}
	answer, err := podsv1alpha1.NewPodsClient(conn).ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	if err != nil {
		return nil, nil, err
	}
	theirs, ours = make(map[string]*v1.Pod), make(map[string]*v1.Pod)
	for i := range list.Items {
		ours[list.Items[i].Name] = &list.Items[i]
	}
	for _, data := range answer.GetPods() {
		pod := new(v1.Pod)
		if err := pod.Unmarshal(data); err != nil {
			return nil, nil, err
		}
		theirs[pod.Name] = pod
	}
	return theirs, ours, nil
}

// settle waits until each pod has come to what is wanted, and both have the same status of it.
func (n *node) settle(t *testing.T, log bool) {
	t.Helper()
	began := time.Now()
	for name, manifest := range manifests {
		last := error(nil)
		testutil.Eventually(t, func() (err error) {
			defer func() {
				if err != nil {
					last = err
				}
			}()
			theirs, ours, err := n.both(t)
			if err != nil {
				return err
			}
			a, b := theirs[name+"-node1"], ours[name+"-node1"]
			switch {
			case a == nil || b == nil || a.UID != b.UID:
				return fmt.Errorf("%s: the kubelet has it: %t, podconfigd: %t", name, a != nil, b != nil)
			case manifest.want != nil && !manifest.want(&a.Status):
				return fmt.Errorf("%s: not yet: %s", name, asJSON(a.Status))
			case b.Status.HostIP != "192.0.2.7":
				return fmt.Errorf("%s: the address of the node is %q", name, b.Status.HostIP)
			case !equality.Semantic.DeepEqual(withoutIPs(&a.Status), withoutIPs(&b.Status)):
				return fmt.Errorf("%s: the kubelet's status (-) differs from podconfigd's (+):\n%s", name, cmp.Diff(withoutIPs(&a.Status), withoutIPs(&b.Status)))
			}
			return nil
		})
		if log || last != nil {
			t.Logf("%s: the same after %v; before: %v", name, time.Since(began).Round(time.Millisecond), last)
		}
	}
	t.Logf("all the same after %v", time.Since(began).Round(time.Millisecond))
}

// stands checks that while the kubelet is away, the last status of pods that go on stands.
func (n *node) stands(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, func() error {
		status, err := n.client.Status(t.Context())
		if err == nil && status.Kubelet.PodsAPI.Connected {
			err = errors.New("podconfigd is still connected")
		}
		return err
	})
	<-time.After(3 * time.Second) // by then it counts as away
	list, err := n.client.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		name := strings.TrimSuffix(pod.Name, "-node1")
		if slices.Contains(steady, name) && !manifests[name].want(&pod.Status) {
			t.Errorf("%s: while the kubelet is away: %s", name, asJSON(pod.Status))
		}
	}
}

// nothingBetween checks that a subscriber saw no other status of the steady pods since a time.
func (n *node) nothingBetween(t *testing.T, since time.Time) {
	t.Helper()
	n.ours.mu.Lock()
	defer n.ours.mu.Unlock()
	for _, name := range steady {
		for _, m := range n.ours.pods[name+"-node1"] {
			if m.at.After(since) && !manifests[name].want(m.status) {
				t.Errorf("%s: %v after the kill, a subscriber saw %s", name, m.at.Sub(since), asJSON(m.status))
			}
		}
	}
}

// logDelays compares what both clients got: each status of the kubelet reaches a subscriber of podconfigd within a second,
// unless a newer one follows by then.
func (n *node) logDelays(t *testing.T) {
	t.Helper()
	<-time.After(2 * time.Second)
	n.theirs.mu.Lock()
	defer n.theirs.mu.Unlock()
	n.ours.mu.Lock()
	defer n.ours.mu.Unlock()
	var delays []time.Duration
	events, skipped := 0, 0
	for name, theirs := range n.theirs.pods {
		for i, event := range theirs {
			events++
			at := slices.IndexFunc(n.ours.pods[name], func(m moment) bool {
				return m.at.After(event.at.Add(-time.Second)) && equality.Semantic.DeepEqual(m.status, event.status)
			})
			switch {
			case at >= 0:
				delays = append(delays, n.ours.pods[name][at].at.Sub(event.at))
			case i+1 < len(theirs) && theirs[i+1].at.Sub(event.at) < 1100*time.Millisecond:
				skipped++
			case time.Since(event.at) > 2*time.Second:
				t.Errorf("%s: the status of %v never came: %s", name, event.at, asJSON(event.status))
			}
		}
	}
	slices.Sort(delays)
	if len(delays) == 0 {
		t.Fatal("no status came")
	}
	p50, p99 := delays[len(delays)/2], delays[len(delays)*99/100]
	late := 0
	for _, delay := range delays {
		if delay > time.Second+100*time.Millisecond {
			late++
		}
	}
	t.Logf("%d events of the kubelet, %d came, %d were replaced by a newer one within a second; after a direct client p50 %v, p99 %v, the last %v; %d later than a second",
		events, len(delays), skipped, p50, p99, delays[len(delays)-1], late)
	if late > 0 {
		t.Errorf("%d statuses came later than a second after the event", late)
	}
}

// cost logs what podconfigd took since it was killed.
func (n *node) cost(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest) // utime and stime, in hundredths of a second, and rss, in pages
	t.Logf("podconfigd took %s + %s hundredths of a second of CPU, and has %s pages of memory", f[11], f[12], f[21])
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
