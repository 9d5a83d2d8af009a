package kubernetes

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// node runs pods as a kubelet does, as far as the pods of these tests need it.
type node struct {
	*cluster
	*components.Runtime
	name string
	// host is the folder that has the files of the host.
	host string
}

func (c *cluster) node(t *testing.T, name string) *node {
	t.Helper()
	n := &node{cluster: c, Runtime: c.runtime(), name: name, host: testutil.ShortDir(t)}
	if err := os.Chmod(n.host, 0o755); err != nil {
		t.Fatal(err)
	}
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// path returns the path of a file of the host.
func (n *node) path(elements ...string) string {
	return filepath.Join(append([]string{n.host}, elements...)...)
}

// running is a pod on the node.
type running struct {
	*node
	pod     *v1.Pod
	sandbox string
	config  *runtimeapi.PodSandboxConfig
	logs    string
}

// run creates a pod in the apiserver, and runs its init containers, and then its containers.
func (n *node) run(t *testing.T, namespace string, template *v1.PodTemplateSpec) *running {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName, pod.Spec.NodeName = "pod-", n.name
	pod, err := n.Cluster.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := &running{node: n, pod: pod, logs: filepath.Join(n.host, "logs", pod.Name)}
	pid := runtimeapi.NamespaceMode_CONTAINER
	if pod.Spec.HostPID {
		pid = runtimeapi.NamespaceMode_NODE
	}
	if !pod.Spec.HostNetwork {
		t.Fatal("the runtime has no network plugin: the pod needs the host's network")
	}
	p.config = &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID)},
		Labels: map[string]string{
			"io.kubernetes.pod.name": pod.Name, "io.kubernetes.pod.namespace": pod.Namespace, "io.kubernetes.pod.uid": string(pod.UID),
		},
		LogDirectory: p.logs,
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: pid},
		}},
	}
	sandbox, err := n.CRI.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		t.Fatalf("running the sandbox of %s: %v", pod.Name, err)
	}
	p.sandbox = sandbox.GetPodSandboxId()
	for i := range pod.Spec.InitContainers {
		if code := n.ExitCode(t, p.start(t, &pod.Spec.InitContainers[i])); code != 0 {
			t.Fatalf("init container %s ended with %d:\n%s", pod.Spec.InitContainers[i].Name, code, p.log(t, pod.Spec.InitContainers[i].Name))
		}
	}
	return p
}

// stop removes the containers of the pod, and the pod.
func (p *running) stop(t *testing.T, container string) {
	t.Helper()
	if _, err := p.CRI.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: container, Timeout: *p.pod.Spec.TerminationGracePeriodSeconds}); err != nil {
		t.Fatal(err)
	}
	p.RemoveSandbox(t, p.sandbox)
	zero := int64(0)
	if err := p.Cluster.Client.CoreV1().Pods(p.pod.Namespace).Delete(t.Context(), p.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
}

// start starts a container of the pod, and returns its ID.
func (p *running) start(t *testing.T, c *v1.Container) string {
	t.Helper()
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name}, Image: &runtimeapi.ImageSpec{Image: c.Image},
		Labels: map[string]string{"io.kubernetes.container.name": c.Name}, LogPath: c.Name + ".log",
		Mounts: p.mounts(t, c),
		Linux:  &runtimeapi.LinuxContainerConfig{Resources: new(runtimeapi.LinuxContainerResources), SecurityContext: p.security(c)},
	}
	config.Linux.Resources.MemoryLimitInBytes = c.Resources.Limits.Memory().Value()
	env := p.environment(t, c)
	for _, key := range slices.Sorted(maps.Keys(env)) {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: key, Value: []byte(env[key])})
	}
	expand := func(words []string) (out []string) {
		for _, word := range words {
			for key, value := range env {
				word = strings.ReplaceAll(word, "$("+key+")", value)
			}
			out = append(out, word)
		}
		return out
	}
	config.Command, config.Args = expand(c.Command), expand(c.Args)
	resp, err := p.CRI.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: p.sandbox, SandboxConfig: p.config, Config: config})
	if err != nil {
		t.Fatalf("creating container %s: %v", c.Name, err)
	}
	p.StartContainer(t, resp.GetContainerId())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s of %s said:\n%s", c.Name, p.pod.Name, p.log(t, c.Name))
		}
	})
	return resp.GetContainerId()
}

// log returns what a container wrote.
func (p *running) log(t *testing.T, container string) string {
	t.Helper()
	data, _ := os.ReadFile(filepath.Join(p.logs, container+".log"))
	return string(data)
}

// environment returns the variables of a container, and those with which the kubelet names the
// apiserver.
func (p *running) environment(t *testing.T, c *v1.Container) map[string]string {
	t.Helper()
	host, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if e.ValueFrom == nil {
			continue
		}
		switch path := e.ValueFrom.FieldRef.FieldPath; path {
		case "spec.nodeName":
			env[e.Name] = p.pod.Spec.NodeName
		case "status.hostIP":
			env[e.Name] = "192.0.2.7"
		default:
			t.Fatalf("the test does not know the field %s", path)
		}
	}
	return env
}

// security returns the security context of a container.
func (p *running) security(c *v1.Container) *runtimeapi.LinuxContainerSecurityContext {
	pod, own := p.pod.Spec.SecurityContext, c.SecurityContext
	if pod == nil {
		pod = new(v1.PodSecurityContext)
	}
	if own == nil {
		own = new(v1.SecurityContext)
	}
	security := &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: p.config.GetLinux().GetSecurityContext().GetNamespaceOptions()}
	for _, user := range []*int64{pod.RunAsUser, own.RunAsUser} {
		if user != nil {
			security.RunAsUser = &runtimeapi.Int64Value{Value: *user}
		}
	}
	for _, group := range []*int64{pod.RunAsGroup, own.RunAsGroup} {
		if group != nil {
			security.RunAsGroup = &runtimeapi.Int64Value{Value: *group}
		}
	}
	security.SupplementalGroups = pod.SupplementalGroups
	security.NoNewPrivs = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	security.ReadonlyRootfs = own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem
	if own.Capabilities != nil {
		security.Capabilities = new(runtimeapi.Capability)
		for _, name := range own.Capabilities.Add {
			security.Capabilities.AddCapabilities = append(security.Capabilities.AddCapabilities, string(name))
		}
		for _, name := range own.Capabilities.Drop {
			security.Capabilities.DropCapabilities = append(security.Capabilities.DropCapabilities, string(name))
		}
	}
	if pod.SeccompProfile != nil && pod.SeccompProfile.Type == v1.SeccompProfileTypeRuntimeDefault {
		security.Seccomp = &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	}
	return security
}

// mounts returns the mounts of a container, and makes what is mounted. It adds the token of the
// service account, as the apiserver's admission plugin and the kubelet do.
func (p *running) mounts(t *testing.T, c *v1.Container) (mounts []*runtimeapi.Mount) {
	t.Helper()
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(p.pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name })
		var from string
		switch volume := p.pod.Spec.Volumes[i]; {
		case volume.HostPath != nil:
			from = p.hostPath(t, volume.HostPath)
		case volume.ConfigMap != nil:
			from = p.configMap(t, volume.ConfigMap.Name)
		default:
			t.Fatalf("the test does not know the volume %+v", volume)
		}
		mounts = append(mounts, &runtimeapi.Mount{ContainerPath: m.MountPath, HostPath: from, Readonly: m.ReadOnly})
	}
	if p.pod.Spec.ServiceAccountName == "" {
		return mounts
	}
	return append(mounts, &runtimeapi.Mount{
		ContainerPath: "/var/run/secrets/kubernetes.io/serviceaccount", HostPath: p.token(t), Readonly: true,
	})
}

// hostPath makes a directory for root, as the kubelet does.
func (p *running) hostPath(t *testing.T, source *v1.HostPathVolumeSource) string {
	t.Helper()
	path := p.path(source.Path)
	if *source.Type == v1.HostPathDirectoryOrCreate {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		t.Fatalf("%s is no directory: %v", path, err)
	}
	return path
}

func (p *running) configMap(t *testing.T, name string) string {
	t.Helper()
	config, err := p.Cluster.Client.CoreV1().ConfigMaps(p.pod.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.volume(t, config.Data)
}

func (p *running) token(t *testing.T) string {
	t.Helper()
	accounts := p.Cluster.Client.CoreV1().ServiceAccounts(p.pod.Namespace)
	review, err := accounts.CreateToken(t.Context(), p.pod.Spec.ServiceAccountName, new(authenticationv1.TokenRequest), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.volume(t, map[string]string{"token": review.Status.Token, "ca.crt": string(p.Authority.PEM), "namespace": p.pod.Namespace})
}

// volume writes files that every user can read.
func (p *running) volume(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp(p.host, "volume")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// probe asks as the kubelet's probe does.
func (p *running) probe(t *testing.T, c *v1.Container, probe *v1.Probe) error {
	t.Helper()
	get := probe.HTTPGet
	i := slices.IndexFunc(c.Ports, func(port v1.ContainerPort) bool { return port.Name == get.Port.StrVal })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s:%d%s", get.Host, c.Ports[i].ContainerPort, get.Path), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", get.Path, resp.Status)
	}
	return nil
}
