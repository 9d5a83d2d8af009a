package podsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/kubelet/podsapi"
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
	// The kubelet evicts no static pods.
	"evicted": {`volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}], containers: [{name: c, image: IMAGE, args: [fill, /v/f, "2000000"], volumeMounts: [{name: v, mountPath: /v}]}]`,
		func(s *v1.PodStatus) bool { return s.Reason == "Evicted" }},
}

// apiPods are the pods of manifests that TestLiveWithAnAPIServer creates in the apiserver, and staticPods the pods in
// files.
var (
	apiPods    = []string{"plain", "probed", "flapping", "unready", "unlive", "crash", "noimage", "noconfig", "deadline", "evicted", "noinit", "sidecar"}
	staticPods = []string{"probed", "unready"}
)

// steady are the pods that go on as they are while the kubelet is away.
var steady = []string{"plain", "probed", "unready", "unstarted", "never", "noconfig", "deadline", "evicted", "sidecar"}

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
	// pods are the names of the manifests of its pods, by the names of the pods.
	pods map[string]string
	// cluster is nil without an apiserver.
	cluster *components.Cluster
	runtime *components.Runtime
	kubelet *components.Kubelet
	cmd     *exec.Cmd
	client  *client.Client

	// theirs are the statuses that a direct client of the kubelet got, and ours the statuses that a subscriber of
	// podconfigd got.
	theirs, ours track
}

// track is the statuses of each pod, by name.
type track struct {
	mu   sync.Mutex
	pods map[string][]moment
}

// moment is the time of a status. The status of an event for a pod that is finished is nil: the event has none.
type moment struct {
	at     time.Time
	status *v1.PodStatus
}

func (t *track) note(pod *v1.Pod, status *v1.PodStatus) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods == nil {
		t.pods = make(map[string][]moment)
	}
	t.pods[pod.Name] = append(t.pods[pod.Name], moment{time.Now(), status})
}

// compared returns what both have to have of a status: without an apiserver, a kubelet leaves the IPs empty.
func (n *node) compared(s *v1.PodStatus) *v1.PodStatus {
	s = s.DeepCopy()
	if n.cluster == nil {
		s.HostIP, s.HostIPs, s.PodIP, s.PodIPs = "", nil, "", nil
	}
	return s
}

// TestLive runs podconfigd beside a kubelet 1.37 without an apiserver. Every field of the status is the kubelet's within a
// second of its event, also after each of them was killed.
func TestLive(t *testing.T) {
	n := newNode(t)
	for name := range manifests {
		if name != "evicted" {
			n.pods[name+"-node1"] = name
		}
	}
	n.live(t)
}

// TestLiveWithAnAPIServer is TestLive with pods of an apiserver, which the kubelet and podconfigd have joined.
func TestLiveWithAnAPIServer(t *testing.T) {
	n := newNode(t)
	n.cluster = components.Start(t)
	for _, name := range staticPods {
		n.pods[name+"-node1"] = name
	}
	for _, name := range apiPods {
		n.pods[name] = name
	}
	n.live(t)
}

func newNode(t *testing.T) *node {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("runs a kubelet, which takes root")
	}
	n := &node{
		dir: testutil.ShortDir(t), runtime: components.StartRuntime(t, components.Containerd), port: probed(t), pods: make(map[string]string),
	}
	if err := os.Mkdir(n.manifests(), 0o755); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) live(t *testing.T) {
	t.Helper()
	n.startPodconfigd(t)
	n.startKubelet(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { n.watch(ctx) })
	running.Go(func() { n.subscribe(ctx) })
	for pod, name := range n.pods {
		n.put(t, pod, name)
	}
	n.settle(t, true)
	n.logDelays(t, time.Time{})

	t.Log("podconfigd is killed")
	killed := time.Now()
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	n.startPodconfigd(t)
	baseline := n.start(t, "baseline", podsapi.None)
	running.Go(func() { drain(ctx, filepath.Join(n.dir, "baseline")) })
	n.connected(t, true)
	back := time.Now()
	n.settle(t, false)
	n.logDelays(t, back)

	t.Log("the kubelet is killed")
	n.kubelet.Kill(t)
	n.stands(t)
	n.nothingBetween(t, killed)
	back = time.Now()
	n.kubelet.Start(t)
	n.settle(t, false)
	n.logDelays(t, back)
	n.logCost(t, baseline)
	cancel()
	running.Wait()
	n.client.CloseIdleConnections()
}

// startKubelet starts the kubelet, which podconfigd finds behind a link.
func (n *node) startKubelet(t *testing.T) {
	t.Helper()
	flags := []string{"--volume-stats-agg-period=1s"} // of the size of an emptyDir
	if n.cluster != nil {
		flags = append(flags, "--kubeconfig="+n.cluster.Kubeconfig(t, filepath.Join(n.dir, "kubelet.conf"), "system:node:node1", "system:masters"))
	}
	n.kubelet = components.StartKubeletVersion(t, n.runtime, "1.37", "node1", n.manifests(), flags...)
	if err := os.Symlink(n.kubelet.PodsAPI, filepath.Join(n.dir, "pods-api")); err != nil {
		t.Fatal(err)
	}
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

// put creates a pod: in the apiserver, or as a file if it is one of the static pods.
func (n *node) put(t *testing.T, pod, name string) {
	t.Helper()
	spec := strings.NewReplacer("IMAGE", components.Image, "PORT", n.port).Replace(manifests[name].spec)
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default}\nspec: {hostNetwork: true, terminationGracePeriodSeconds: 1, %s}\n", name, spec)
	if pod == name {
		object := new(v1.Pod)
		if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
			t.Fatal(err)
		}
		object.Spec.NodeName, object.Spec.AutomountServiceAccountToken = "node1", new(false)
		if _, err := n.cluster.Client.CoreV1().Pods("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return
	}
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
	n.cmd = n.start(t, "s", filepath.Join(n.dir, "pods-api"))
	if n.client == nil {
		n.client = client.New(filepath.Join(n.dir, "s"))
	}
}

// start starts a podconfigd with a Pods API of the kubelet.
func (n *node) start(t *testing.T, socket, podsAPI string) *exec.Cmd {
	t.Helper()
	args := []string{
		"--pod-manifest-path", n.manifests(), "--hostname-override", "node1", "--socket", filepath.Join(n.dir, socket),
		"--container-runtime-endpoint", "unix://" + n.runtime.Socket, "--node-ip", "192.0.2.7",
		"--state-dir", filepath.Join(n.dir, "state-of-"+socket), "--kubelet-pods-api", podsAPI,
	}
	if n.cluster != nil {
		args = append(args, "--kubeconfig", n.cluster.TokenKubeconfig(t, filepath.Join(n.dir, "kubeconfig-of-"+socket), components.User))
	}
	cmd := exec.Command(testutil.MustProgram(t, ".", "./cmd/podconfigd"), args...)
	log := &testutil.Buffer{}
	cmd.Stderr, cmd.SysProcAttr = log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the log of %q:\n%s", args, log)
		}
	})
	return cmd
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
		switch {
		case initial:
		case event.GetType() == podsv1alpha1.EventType_DELETED:
			n.theirs.note(&pod, nil)
		default:
			n.theirs.note(&pod, n.compared(&pod.Status))
		}
	}
}

func (n *node) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+n.kubelet.PodsAPI, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// subscribe is a subscriber of podconfigd.
func (n *node) subscribe(ctx context.Context) {
	for u, err := range n.client.Updates(ctx, client.Options{NoMirrorPods: true}) {
		if err != nil {
			continue // until the socket is there
		}
		for _, pod := range u.Pods {
			n.ours.note(pod, n.compared(&pod.Status))
		}
	}
}

// drain is a subscriber that reads only.
func drain(ctx context.Context, socket string) {
	c := client.New(socket)
	defer c.CloseIdleConnections()
	for _, err := range c.Updates(ctx, client.Options{NoMirrorPods: true}) {
		if err != nil {
			continue // until the socket is there
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
		if pod := &list.Items[i]; pod.Annotations[v1.MirrorPodAnnotationKey] == "" {
			ours[pod.Name] = pod
		}
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
	for pod, name := range n.pods {
		last, want := error(nil), manifests[name].want
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
			a, b := theirs[pod], ours[pod]
			switch {
			case a == nil || b == nil || a.UID != b.UID:
				return fmt.Errorf("%s: the kubelet has it: %t, podconfigd: %t", pod, a != nil, b != nil)
			case want != nil && !want(&a.Status):
				return fmt.Errorf("%s: not yet: %s", pod, asJSON(a.Status))
			case n.cluster == nil && b.Status.HostIP != "192.0.2.7":
				return fmt.Errorf("%s: the address of the node is %q", pod, b.Status.HostIP)
			case !equality.Semantic.DeepEqual(n.compared(&a.Status), n.compared(&b.Status)):
				return fmt.Errorf("%s: the kubelet's status (-) differs from podconfigd's (+):\n%s", pod, cmp.Diff(n.compared(&a.Status), n.compared(&b.Status)))
			}
			return nil
		})
		if log || last != nil {
			t.Logf("%s: the same after %v; before: %v", pod, time.Since(began).Round(time.Millisecond), last)
		}
	}
	t.Logf("all the same after %v", time.Since(began).Round(time.Millisecond))
}

// connected waits until podconfigd is connected to the kubelet, or is not.
func (n *node) connected(t *testing.T, want bool) {
	t.Helper()
	testutil.Eventually(t, func() error {
		status, err := n.client.Status(t.Context())
		if err == nil && status.Kubelet.PodsAPI.Connected != want {
			err = fmt.Errorf("podconfigd is connected: %t", !want)
		}
		return err
	})
}

// stands checks that while the kubelet is away, the last status of pods that go on stands.
func (n *node) stands(t *testing.T) {
	t.Helper()
	n.connected(t, false)
	<-time.After(3 * time.Second) // by then it counts as away
	list, err := n.client.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if name := n.pods[pod.Name]; slices.Contains(steady, name) && !manifests[name].want(&pod.Status) {
			t.Errorf("%s: while the kubelet is away: %s", pod.Name, asJSON(pod.Status))
		}
	}
}

// nothingBetween checks that a subscriber saw no other status of the steady pods since a time.
func (n *node) nothingBetween(t *testing.T, since time.Time) {
	t.Helper()
	n.ours.mu.Lock()
	defer n.ours.mu.Unlock()
	for pod, name := range n.pods {
		if !slices.Contains(steady, name) {
			continue
		}
		for _, m := range n.ours.pods[pod] {
			if m.at.After(since) && !manifests[name].want(m.status) {
				t.Errorf("%s: %v after the kill, a subscriber saw %s", pod, m.at.Sub(since), asJSON(m.status))
			}
		}
	}
}

// last returns the last status of a pod before a time; nil if it had none.
func (t *track) last(pod string, before time.Time) (last *v1.PodStatus) {
	for _, m := range t.pods[pod] {
		if m.at.Before(before) {
			last = m.status
		}
	}
	return last
}

const (
	// soon is a second, and what a busy machine takes.
	soon = 1100 * time.Millisecond
	// forever is the delay of a status that never came.
	forever = time.Duration(math.MaxInt64)
)

// logDelays compares what both clients got since a time: each status of the kubelet reaches a subscriber of podconfigd within a second,
// unless a newer one follows by then. A subscriber can have it already: a kubelet that starts again can compute the status of
// before, and say so in an event.
func (n *node) logDelays(t *testing.T, since time.Time) {
	t.Helper()
	<-time.After(2 * time.Second)
	n.theirs.mu.Lock()
	defer n.theirs.mu.Unlock()
	n.ours.mu.Lock()
	defer n.ours.mu.Unlock()
	var delays []time.Duration
	events, skipped, there := 0, 0, 0
	for name, theirs := range n.theirs.pods {
		for i, event := range theirs {
			if event.at.Before(since) || event.status == nil {
				continue
			}
			events++
			at := slices.IndexFunc(n.ours.pods[name], func(m moment) bool {
				return m.at.After(event.at.Add(-time.Second)) && equality.Semantic.DeepEqual(m.status, event.status)
			})
			delay := forever
			if at >= 0 {
				delay = n.ours.pods[name][at].at.Sub(event.at)
			}
			switch {
			case delay > soon && equality.Semantic.DeepEqual(n.ours.last(name, event.at), event.status):
				there++
			case at >= 0:
				delays = append(delays, delay)
			case i+1 < len(theirs) && theirs[i+1].at.Sub(event.at) < soon:
				skipped++
			case time.Since(event.at) > 2*time.Second:
				t.Errorf("%s: the status of %v never came; it differs from the one before (-):\n%s", name, event.at, cmp.Diff(n.ours.last(name, event.at), event.status))
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
		if delay > soon {
			late++
		}
	}
	t.Logf("%d events of the kubelet, %d came, %d were replaced by a newer one within a second, %d changed nothing; after a direct client p50 %v, p99 %v, the last %v; %d later than a second",
		events, len(delays), skipped, there, p50, p99, delays[len(delays)-1], late)
	if late > 0 {
		t.Errorf("%d statuses came later than a second after the event", late)
	}
}

// quiet is the time for which logCost measures. Meanwhile, the test asks for nothing.
const quiet = 30 * time.Second

// logCost compares the cost of podconfigd with and without the Pods API, each with one subscriber, and logs it.
func (n *node) logCost(t *testing.T, baseline *exec.Cmd) {
	t.Helper()
	names := []string{"podconfigd", "podconfigd without the Pods API"}
	cmds := []*exec.Cmd{n.cmd, baseline}
	var before [2]time.Duration
	for i, cmd := range cmds {
		before[i], _ = taken(t, cmd)
	}
	<-time.After(quiet)
	for i, cmd := range cmds {
		cpu, memory := taken(t, cmd)
		t.Logf("%s takes %v of CPU in %v, and has %d KiB of memory", names[i], cpu-before[i], quiet, memory>>10)
	}
}

// taken returns what a process took: the time of CPU, and its memory in bytes.
func taken(t *testing.T, cmd *exec.Cmd) (cpu time.Duration, memory int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest) // utime and stime, in hundredths of a second, and rss, in pages
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return time.Duration(number(f[11])+number(f[12])) * 10 * time.Millisecond, number(f[21]) * os.Getpagesize()
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
