package kubernetes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// operator is the Prometheus Operator, whose module has the resource definition of PodMonitor.
const operator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is the cluster of all tests.
type cluster struct {
	*components.Cluster
	admin string // a kubeconfig
	// runtime returns a containerd with the image that the DaemonSet names.
	runtime func() *components.Runtime
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	c := &cluster{Cluster: components.Start(t)}
	c.runtime = sync.OnceValue(func() *components.Runtime {
		r := components.StartRuntime(t, components.Containerd)
		config, files := image(t)
		r.Load(t, imageName, config, files...)
		return r
	})
	c.admin = c.Kubeconfig(t, filepath.Join(dir, "admin.conf"), "admin", "system:masters")
	testutil.Until(t, "kube-system", func() bool {
		_, err := c.Client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		return err == nil
	})
	for name, run := range map[string]func(*testing.T, *cluster){
		"applied":      applied,
		"pod security": podSecurity,
		"rights":       rights,
		"pod":          runsWithoutRoot,
		"kubeadm":      runsForKubeadm,
		"export":       runsExport,
	} {
		t.Run(name, func(t *testing.T) { run(t, c) })
	}
}

// kubectl runs kubectl as an administrator.
func (c *cluster) kubectl(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), components.Kubectl(t), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.admin, "HOME="+filepath.Dir(c.admin))
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The apiserver admits all that kustomize renders, without an unknown field, with each component
// alone and with all together.
func applied(t *testing.T, c *cluster) {
	installPodMonitor(t, c)
	dirs := map[string]string{plain: folder(t, plain), kubeadm: folder(t, kubeadm), "all": overlay(t, "", everyComponent(t)...)}
	for _, name := range everyComponent(t) {
		dirs[name] = overlay(t, "", name)
	}
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := c.dryRun(t, render(t, dir)); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	t.Run("a typing error", func(t *testing.T) {
		t.Parallel()
		text := strings.Replace(render(t, folder(t, plain)), "hostNetwork:", "hostNetwrok:", 1)
		if out, err := c.dryRun(t, text); err == nil || !strings.Contains(out, "hostNetwrok") {
			t.Errorf("got %v, want an error that names the field\n%s", err, out)
		}
	})
}

func (c *cluster) dryRun(t *testing.T, text string) (string, error) {
	t.Helper()
	return c.kubectl(t, text, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
}

// installPodMonitor creates the resource of the Prometheus Operator.
func installPodMonitor(t *testing.T, c *cluster) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", operator)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(out, &module) != nil {
		t.Fatalf("downloading %s: %v\n%s", operator, err, out)
	}
	path := filepath.Join(module.Dir, "example", "prometheus-operator-crd", "monitoring.coreos.com_podmonitors.yaml")
	if out, err := c.kubectl(t, "", "apply", "--server-side", "-f", path); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := c.kubectl(t, "", "wait", "--for=condition=Established", "crd/podmonitors.monitoring.coreos.com"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The pod mounts directories of the host, which only the level "privileged" of the pod security
// standards admits. Nothing else of the daemon needs it: without these mounts and the host's network,
// its container is admitted at the level "restricted".
func podSecurity(t *testing.T, c *cluster) {
	set := objects(t, render(t, overlay(t, "", "prepared-directories"))).daemonSet
	create := func(level string, spec v1.PodSpec) error {
		t.Helper()
		namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "level-" + level, Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}}
		if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: spec}
		_, err := c.Client.CoreV1().Pods(namespace.Name).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := create("privileged", set.Spec.Template.Spec); err != nil {
		t.Errorf("privileged: %v", err)
	}
	err := create("baseline", set.Spec.Template.Spec)
	for _, want := range []string{"hostPath volumes", "host namespaces", "hostPort"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("baseline: got %v, want %q in an error", err, want)
		}
	}
	spec := set.Spec.Template.Spec.DeepCopy()
	spec.HostNetwork, spec.Volumes, spec.Containers[0].VolumeMounts, spec.Containers[0].Ports = false, nil, nil, nil
	spec.Containers[0].LivenessProbe, spec.Containers[0].ReadinessProbe = nil, nil
	if err := create("restricted", *spec); err != nil {
		t.Errorf("restricted, without the host's directories and network: %v", err)
	}
}
