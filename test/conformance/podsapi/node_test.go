package podsapi

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/kubelet/podsapi"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
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
	// minor is the version of the kubelet. 1.36 has its Pods API on.
	minor   string
	kubelet *components.Kubelet
	// flags are more flags of podconfigd.
	flags  []string
	cmd    *exec.Cmd
	client *client.Client

	// theirs are the statuses that a direct client of the kubelet got, and ours the statuses that a subscriber of
	// podconfigd got.
	theirs, ours track
}

func newNode(t *testing.T) *node {
	t.Helper()
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("runs a kubelet, which takes root")
	}
	n := &node{
		dir: testutil.ShortDir(t), runtime: components.StartRuntime(t, components.Containerd), port: probed(t), minor: "1.37", pods: make(map[string]string),
	}
	if err := os.Mkdir(n.manifests(), 0o755); err != nil {
		t.Fatal(err)
	}
	return n
}

// startKubelet starts the kubelet, which podconfigd finds behind a link.
func (n *node) startKubelet(t *testing.T) {
	t.Helper()
	flags := []string{"--volume-stats-agg-period=1s"} // of the size of an emptyDir
	if n.cluster != nil {
		flags = append(flags, "--kubeconfig="+n.cluster.Kubeconfig(t, filepath.Join(n.dir, "kubelet.conf"), "system:node:node1", "system:masters"))
	}
	if n.minor == "1.36" {
		flags = append(flags, "--feature-gates=PodsAPI=true")
	}
	n.kubelet = components.StartKubeletVersion(t, n.runtime, n.minor, "node1", n.manifests(), flags...)
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
	api := filepath.Join(n.dir, "pods-api")
	if n.minor == "1.36" && n.cluster != nil {
		api = podsapi.Auto // then the version in the Node counts
	}
	n.cmd = n.start(t, "s", api)
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
	args = append(args, n.flags...)
	if n.cluster != nil {
		args = append(args, "--kubeconfig", n.cluster.TokenKubeconfig(t, filepath.Join(n.dir, "kubeconfig-of-"+socket), components.User))
	}
	cmd := exec.Command(testutil.MustProgram(t, ".", "./cmd/podconfigd"), args...)
	if podsAPI == podsapi.Auto { // with the kubelet's directory at its default path
		cmd = exec.Command("unshare", slices.Concat([]string{
			"--mount", "--propagation", "private", "sh", "-c", `mount --bind "$0" /var/lib/kubelet && exec "$@"`, n.kubelet.Root, cmd.Path,
		}, args)...)
	}
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

func (n *node) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+n.kubelet.PodsAPI, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// compared returns what both have to have of a status: without an apiserver, a kubelet leaves the IPs empty.
func (n *node) compared(s *v1.PodStatus) *v1.PodStatus {
	s = s.DeepCopy()
	if n.cluster == nil {
		s.HostIP, s.HostIPs, s.PodIP, s.PodIPs = "", nil, "", nil
	}
	return s
}
