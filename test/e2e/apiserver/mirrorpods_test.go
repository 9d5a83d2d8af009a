package apiserver

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	kubeletmanifest "github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// nodeKubeconfig writes a kubeconfig with the identity of a node, and returns its path.
func (c *cluster) nodeKubeconfig(t *testing.T, node string) string {
	t.Helper()
	return c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), "system:node:"+node, "system:nodes")
}

// ctl runs the real kubectl with all rights.
func (c *cluster) ctl(t *testing.T, admin string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), components.Kubectl(t), append([]string{"--kubeconfig", admin}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// mirror waits until the apiserver has the mirror pod that the function wants, and returns it.
func (c *cluster) mirror(t *testing.T, name, what string, want func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	var found *v1.Pod
	testutil.Until(t, "the mirror pod "+name+", "+what, func() bool {
		pod, err := c.Client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		found = pod
		return err == nil && want(pod)
	})
	return found
}

func exists(*v1.Pod) bool { return true }

// With the identity of the node and the admission plugins of a real cluster, kubectl shows the
// static pods of a node without a kubelet, with the status of their containers.
func TestMirrorPods(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	c := &cluster{components.Start(t, components.Admission...)}
	r := components.StartRuntime(t, components.Containerd)
	for name, run := range map[string]func(*testing.T, *cluster, *components.Runtime){
		"life": mirrorPodLife, "other client": mirrorPodsOfAnotherClient, "permissions": mirrorPodPermissions,
		"node": mirrorPodsOfANewNode, "refused": refusedMirrorPods, "finalizer": mirrorPodWithAFinalizer, "forged": forgedMirrorPods,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, c, r)
		})
	}
}

// Who may only create pods forges mirror pods of a node without a kubelet: with the annotation, the Node as the owner, a status and
// managedFields of a kubelet, and the UID that an older kubelet would give the static pod. They show no kubelet and no version.
func forgedMirrorPods(t *testing.T, c *cluster, _ *components.Runtime) {
	ctx := t.Context()
	const user, nodeName = "mallory", "mirror-forged"
	c.addNode(t, nodeName)
	node, err := c.Client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: user, Namespace: "default"}
	_, err = c.Client.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		Verbs: []string{"create", "get", "delete", "update", "patch"}, APIGroups: []string{""}, Resources: []string{"pods"},
	}}}, metav1.CreateOptions{})
	if err == nil {
		_, err = c.Client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	conf, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), user))
	if err != nil {
		t.Fatal(err)
	}
	mallory, err := kubernetes.NewForConfig(conf)
	if err != nil {
		t.Fatal(err)
	}
	d := c.daemon(t, nodeName, c.kubeconfig(t))
	testutil.Until(t, "the static pod is there, and no kubelet", func() bool {
		status, err := d.Client.Status(ctx)
		return err == nil && status.Pods == 1 && !status.Kubelet.Present
	})
	manifest := filepath.Join(d.Dir, "manifests", "static.yaml")
	data, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	older, _, err := kubeletmanifest.NewDecoder(nodeName).For(34).DecodeFile(manifest, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"static-" + nodeName, "other"} {
		forged := newPod(name, nodeName)
		forged.Annotations = map[string]string{v1.MirrorPodAnnotationKey: string(older.UID), "kubernetes.io/config.source": "file", "kubernetes.io/config.hash": string(older.UID)}
		forged.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: nodeName, UID: node.UID, Controller: new(true)}}
		forged.Status = v1.PodStatus{Phase: v1.PodRunning, StartTime: new(metav1.Now())}
		forged.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`), Subresource: "status", Time: new(metav1.Now()),
		}}
		made, err := mallory.CoreV1().Pods("default").Create(ctx, forged, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if made.Status.StartTime != nil {
			t.Error("the apiserver takes a status from who creates the pod")
		}
		made.Status = forged.Status
		if _, err := mallory.CoreV1().Pods("default").UpdateStatus(ctx, made, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("writing the status: %v", err)
		}
	}
	testutil.Until(t, "the forged pods are there", func() bool {
		status, err := d.Client.Status(ctx)
		return err == nil && status.Pods == 3
	})
	status, err := d.Client.Status(ctx)
	if err != nil || status.Kubelet.Present || status.Kubelet.Source == "mirrorPods" || status.Kubelet.Rules == "1.34" {
		t.Errorf("%+v, %v", status.Kubelet, err)
	}
	list, err := d.Client.Pods(ctx)
	if err != nil || slices.ContainsFunc(list.Items, func(pod v1.Pod) bool { return pod.UID == older.UID }) {
		t.Errorf("the static pod has the UID of an older kubelet (%v)", err)
	}
}

func mirrorPodLife(t *testing.T, c *cluster, r *components.Runtime) {
	admin := c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "admin"), "admin", "system:masters")
	c.addNode(t, "mirror1")
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), "mirror1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := c.nodeKubeconfig(t, "mirror1")
	args := []string{"--create-mirror-pods", "--container-runtime-endpoint", r.Socket, "--node-ip", "192.0.2.7"}
	d := c.daemon(t, "mirror1", kubeconfig, args...)
	d.PutFile(t, "web", e2e.HostManifest)
	made := c.mirror(t, "web-mirror1", "after its file", exists)
	if owner := made.OwnerReferences; len(owner) != 1 || owner[0].UID != node.UID || owner[0].Controller == nil || !*owner[0].Controller || made.Annotations[config.OwnMirrorAnnotationKey] == "" {
		t.Errorf("the mirror pod has owners %v, annotations %v", owner, made.Annotations)
	}
	uid := made.Annotations[v1.MirrorPodAnnotationKey]
	sandbox := r.Sandbox(t, "web-mirror1", uid)
	r.StartContainer(t, r.Create(t, sandbox, "web-mirror1", uid, "c", "pause"))
	c.mirror(t, "web-mirror1", "with the status of its container", func(p *v1.Pod) bool {
		return p.Status.Phase == v1.PodRunning && p.Status.PodIP == "192.0.2.7" && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Ready
	})
	out := c.ctl(t, admin, "get", "pods", "-A", "-o", "wide")
	if !regexp.MustCompile(`(?m)^default +web-mirror1 +1/1 +Running +0 +\S+ +192\.0\.2\.7 +mirror1 `).MatchString(out) ||
		!regexp.MustCompile(`(?m)^default +static-mirror1 +0/1 +\S+ +0 +\S+ +<none> +mirror1 `).MatchString(out) {
		t.Errorf("kubectl shows\n%s", out)
	}

	// After a restart, the mirror pods are adopted.
	d = d.Again(t, func() {}, append([]string{"--kubeconfig", kubeconfig, "--hostname-override", "mirror1"}, args...)...)
	testutil.Until(t, "both mirror pods in the status", func() bool {
		status, err := d.Client.Status(t.Context())
		return err == nil && status.MirrorPods != nil && status.MirrorPods.Pods == 2
	})
	if again := c.mirror(t, "web-mirror1", "after a restart", exists); again.UID != made.UID || again.Status.Phase != v1.PodRunning {
		t.Errorf("after a restart, the mirror pod has UID %s, before %s; the phase is %s", again.UID, made.UID, again.Status.Phase)
	}

	// A manifest that changes replaces the mirror pod, one that goes deletes it.
	d.PutFile(t, "web", strings.Replace(e2e.HostManifest, "metadata: {", "metadata: {labels: {version: two}, ", 1))
	c.mirror(t, "web-mirror1", "of the new manifest", func(p *v1.Pod) bool { return p.UID != made.UID && p.Labels["version"] == "two" })
	if err := os.Remove(filepath.Join(d.Dir, "manifests", "web.yaml")); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "no mirror pod", func() bool {
		_, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "web-mirror1", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if _, err := d.End(t, syscall.SIGTERM); err != nil {
		t.Errorf("it ended with %v", err)
	}
	// The command of the documentation that deletes what is left.
	sh := exec.CommandContext(t.Context(), "bash", "-c", `kubectl get pods -A --field-selector spec.nodeName=mirror1 \
  -o jsonpath='{range .items[?(@.metadata.annotations.podconfigd\.dev/mirror)]}{.metadata.namespace} {.metadata.name}{"\n"}{end}' |
while read -r namespace name; do kubectl delete pod --force -n "$namespace" "$name"; done`)
	sh.Env = append(os.Environ(), "KUBECONFIG="+admin, "PATH="+filepath.Dir(components.Kubectl(t))+":"+os.Getenv("PATH"))
	text, err := sh.CombinedOutput()
	if left := c.ctl(t, admin, "get", "pods", "--field-selector", "spec.nodeName=mirror1"); err != nil || strings.Contains(left, "static-mirror1") {
		t.Errorf("%v: %s; left: %s", err, text, left)
	}
}

// mirrorStatus waits for a status of the mirror pods.
func mirrorStatus(t *testing.T, d *e2e.Daemon, what string, want func(*v1alpha1.MirrorStatus) bool) {
	t.Helper()
	var last *v1alpha1.MirrorStatus
	testutil.Until(t, what, func() bool {
		status, err := d.Client.Status(t.Context())
		if err == nil {
			last = status.MirrorPods
		}
		return err == nil && last != nil && want(last)
	})
}

// refused waits for a problem of a mirror pod.
func refused(t *testing.T, d *e2e.Daemon, why string) {
	t.Helper()
	mirrorStatus(t, d, why, func(s *v1alpha1.MirrorStatus) bool {
		return slices.ContainsFunc(s.Problems, func(p v1alpha1.MirrorProblem) bool { return strings.Contains(p.Message, why) })
	})
}

func mirrorPodsOfAnotherClient(t *testing.T, c *cluster, _ *components.Runtime) {
	c.addNode(t, "mirror2")
	pods := c.Client.CoreV1().Pods("default")
	kubelets := newPod("kubelets-mirror2", "mirror2")
	kubelets.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
	if _, err := pods.Create(t.Context(), kubelets, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := c.nodeKubeconfig(t, "mirror2")
	d := c.daemon(t, "mirror2", kubeconfig, "--create-mirror-pods")
	mirrorStatus(t, d, "a stop", func(s *v1alpha1.MirrorStatus) bool {
		return s.Stopped != nil && strings.Contains(s.Stopped.Reason, "another client created the mirror pod default/kubelets-mirror2")
	})
	d.PutFile(t, "more", e2e.HostManifest)
	mirrorStatus(t, d, "two static pods", func(s *v1alpha1.MirrorStatus) bool { return s.StaticPods == 2 && s.Pods == 0 })
	if out, code := d.Run(t, "status"); code != 2 || !strings.HasPrefix(out, "Health:    mirror pods stopped\n") ||
		!strings.Contains(out, "Mirrors:   0 of 2 static pods, stopped: another client created the mirror pod default/kubelets-mirror2, so a kubelet manages this node") {
		t.Errorf("the exit code is %d, the status is\n%s", code, out)
	}
	if out, _ := d.Run(t, "status", "more.yaml"); !strings.Contains(out, "\nMirror:    mirror pods are stopped: another client created the mirror pod") {
		t.Errorf("the story of a pod is\n%s", out)
	}
	if n := strings.Count(d.Log.String(), "Stopped creating mirror pods"); n != 1 {
		t.Errorf("the stop is logged %d times", n)
	}
	if err := c.delete(t.Context(), "kubelets-mirror2", 0); err != nil {
		t.Fatal(err)
	}

	// After a restart, the mirror pods are created. Another client deletes one, and again the next one.
	d = d.Again(t, func() {}, "--kubeconfig", kubeconfig, "--hostname-override", "mirror2", "--create-mirror-pods")
	made := c.mirror(t, "web-mirror2", "of podconfigd", exists)
	mirrorStatus(t, d, "two mirror pods", func(s *v1alpha1.MirrorStatus) bool { return s.Pods == 2 && s.Stopped == nil })
	if err := c.delete(t.Context(), made.Name, 0); err != nil {
		t.Fatal(err)
	}
	c.mirror(t, made.Name, "after its deletion", func(pod *v1.Pod) bool { return pod != nil && pod.UID != made.UID })
	if err := c.delete(t.Context(), made.Name, 0); err != nil {
		t.Fatal(err)
	}
	mirrorStatus(t, d, "another stop", func(s *v1alpha1.MirrorStatus) bool {
		return s.Pods == 1 && s.Stopped != nil && s.Stopped.Until != nil && strings.Contains(s.Stopped.Reason, "another client deleted the mirror pod default/web-mirror2")
	})
}

// A finalizer keeps a deleted mirror pod. The status says so until somebody removes the finalizer.
func mirrorPodWithAFinalizer(t *testing.T, c *cluster, _ *components.Runtime) {
	c.addNode(t, "mirror6")
	d := c.daemon(t, "mirror6", c.nodeKubeconfig(t, "mirror6"), "--create-mirror-pods")
	d.PutFile(t, "web", e2e.HostManifest)
	c.mirror(t, "web-mirror6", "after its file", exists)
	pods := c.Client.CoreV1().Pods("default")
	finalizers := func(list string) {
		if _, err := pods.Patch(t.Context(), "web-mirror6", types.MergePatchType, []byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	finalizers(`["example.com/keep"]`)
	if err := os.Remove(filepath.Join(d.Dir, "manifests", "web.yaml")); err != nil {
		t.Fatal(err)
	}
	refused(t, d, "the apiserver keeps it until others remove its finalizers: example.com/keep")
	if out, code := d.Run(t, "status"); code != 2 || !strings.Contains(out, "its finalizers: example.com/keep") {
		t.Errorf("the exit code is %d, the status is\n%s", code, out)
	}
	finalizers("null")
	mirrorStatus(t, d, "no problem", func(s *v1alpha1.MirrorStatus) bool { return len(s.Problems) == 0 })
	if n := strings.Count(d.Log.String(), "its finalizers: example.com/keep"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
}

// With the permissions in deploy/kubernetes, everything works. With one less, it does not.
func mirrorPodPermissions(t *testing.T, c *cluster, r *components.Runtime) {
	c.addNode(t, "mirror3")
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "deploy", "kubernetes", "mirror-pods.yaml"))
	var role rbacv1.ClusterRole
	if err := errors.Join(err, yaml.UnmarshalStrict(data, &role)); err != nil {
		t.Fatal(err)
	}
	roles := c.Client.RbacV1().ClusterRoles()
	none := role.DeepCopy()
	none.Rules = nil
	if _, err := roles.Create(t.Context(), none, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: components.User}},
	}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d := c.daemon(t, "mirror3", c.kubeconfig(t), "--create-mirror-pods", "--container-runtime-endpoint", r.Socket)
	d.PutFile(t, "web", e2e.HostManifest)
	allow := func(resource string, verbs ...string) {
		t.Helper()
		granted, err := roles.Get(t.Context(), role.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		granted.Rules = append(granted.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs})
		if _, err := roles.Update(t.Context(), granted, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, d, `cannot create resource "pods"`)
	allow("pods", "create")
	c.mirror(t, "web-mirror3", "with a permission", exists)
	refused(t, d, `cannot get resource "pods"`)
	allow("pods", "get")
	refused(t, d, `cannot patch resource "pods/status"`)
	allow("pods/status", "patch")
	c.mirror(t, "web-mirror3", "with a status", func(p *v1.Pod) bool { return p.Status.StartTime != nil })
	if err := os.Remove(filepath.Join(d.Dir, "manifests", "web.yaml")); err != nil {
		t.Fatal(err)
	}
	refused(t, d, `cannot delete resource "pods"`)
	allow("pods", "delete")
	testutil.Until(t, "no mirror pod", func() bool {
		_, err := c.Client.CoreV1().Pods("default").Get(t.Context(), "web-mirror3", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	var named []string
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			named = append(named, rule.Resources[0]+" "+verb)
		}
	}
	if want := []string{"pods get", "pods create", "pods delete", "pods/status patch"}; !slices.Equal(named, want) {
		t.Errorf("the role has %v, needed are %v", named, want)
	}
}

// A node that is deleted and created again owns new mirror pods, when the old ones are collected
// as garbage. The cluster of the test has no garbage collector.
func mirrorPodsOfANewNode(t *testing.T, c *cluster, _ *components.Runtime) {
	d := c.daemon(t, "mirror4", c.nodeKubeconfig(t, "mirror4"), "--create-mirror-pods")
	mirrorStatus(t, d, "waiting", func(s *v1alpha1.MirrorStatus) bool { return s.Waiting != "" && s.Pods == 0 })
	c.addNode(t, "mirror4")
	before := c.mirror(t, "static-mirror4", "of the first node", exists)
	if err := c.Client.CoreV1().Nodes().Delete(t.Context(), "mirror4", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	mirrorStatus(t, d, "waiting for the node", func(s *v1alpha1.MirrorStatus) bool {
		return s.Waiting == "the apiserver does not have the node" && s.Stopped == nil
	})
	if err := c.delete(t.Context(), "static-mirror4", 0); err != nil {
		t.Fatal(err)
	}
	c.addNode(t, "mirror4")
	after := c.mirror(t, "static-mirror4", "of the second node", exists)
	if after.UID == before.UID || after.OwnerReferences[0].UID == before.OwnerReferences[0].UID {
		t.Errorf("the mirror pod is still that of the node %s", before.OwnerReferences[0].UID)
	}
	mirrorStatus(t, d, "no stop", func(s *v1alpha1.MirrorStatus) bool { return s.Pods == 1 && s.Stopped == nil && s.Waiting == "" })
}

// What the apiserver refuses is in the status and in the log, and is tried again.
func refusedMirrorPods(t *testing.T, c *cluster, _ *components.Runtime) {
	c.addNode(t, "mirror5")
	d := c.daemon(t, "mirror5", c.nodeKubeconfig(t, "mirror5"), "--create-mirror-pods")
	d.PutFile(t, "web", strings.Replace(e2e.HostManifest, "metadata: {", "metadata: {namespace: safe, ", 1))
	refused(t, d, `namespaces "safe" not found`)
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "safe", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused(t, d, `violates PodSecurity "restricted:latest"`)
	if out, _ := d.Run(t, "status"); !strings.Contains(out, `violates PodSecurity`) || !strings.Contains(out, "Mirrors:   1 of 2 static pods") {
		t.Errorf("the status is\n%s", out)
	}
	if out, _ := d.Run(t, "status", "safe/web"); !strings.Contains(out, "\nMirror:    ") || !strings.Contains(out, "violates PodSecurity") {
		t.Errorf("the story of the pod is\n%s", out)
	}
	if !strings.Contains(d.Log.String(), "violates PodSecurity") {
		t.Error("the log does not have it")
	}
	namespace.Labels = nil
	if _, err := c.Client.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	mirrorStatus(t, d, "all mirror pods", func(s *v1alpha1.MirrorStatus) bool { return s.Pods == 2 && len(s.Problems) == 0 })
}
