package kubernetes

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// right is a permission: one verb on one resource.
type right struct{ group, resource, verb string }

// lacks is what does not work without a right.
type lacks struct {
	features []string
	// message is in the log of podconfigd.
	message string
	// old is with an apiserver without WatchList, which podconfigd asks for a list first.
	old bool
}

// withoutRight has every right of deploy/kubernetes. The test fails if nothing is refused without a
// right. Without the watch of the pods, they are listed again and again. Without the list or the watch of the node and the
// namespaces, the first ones are there, and changes come late or never.
var withoutRight = map[right]lacks{
	{"", "nodes", "get"}:        {everyList, `cannot get resource "nodes"`, false},
	{"", "nodes", "list"}:       {nil, `cannot list resource "nodes"`, true},
	{"", "nodes", "watch"}:      {nil, `cannot watch resource "nodes"`, false},
	{"", "pods", "list"}:        {everyList, `cannot list resource "pods"`, true},
	{"", "pods", "watch"}:       {nil, `cannot watch resource "pods"`, false},
	{"", "namespaces", "list"}:  {[]string{"namespaces"}, `cannot list resource "namespaces"`, true},
	{"", "namespaces", "watch"}: {nil, `cannot watch resource "namespaces"`, false},

	{"", "events", "create"}: {[]string{"events"}, `cannot create resource "events"`, false},
	{"", "events", "patch"}:  {nil, patchEvents, false},

	{"apps", "daemonsets", "get"}:         {nil, `cannot get resource "daemonsets"`, false},
	{"apps", "deployments", "get"}:        {nil, `cannot get resource "deployments"`, false},
	{"apps", "replicasets", "get"}:        {nil, `cannot get resource "replicasets"`, false},
	{"apps", "statefulsets", "get"}:       {nil, `cannot get resource "statefulsets"`, false},
	{"batch", "cronjobs", "get"}:          {nil, `cannot get resource "cronjobs"`, false},
	{"batch", "jobs", "get"}:              {nil, `cannot get resource "jobs"`, false},
	{"", "replicationcontrollers", "get"}: {nil, `cannot get resource "replicationcontrollers"`, false},

	{"authentication.k8s.io", "tokenreviews", "create"}:        {[]string{"https"}, `cannot create resource "tokenreviews"`, false},
	{"authorization.k8s.io", "subjectaccessreviews", "create"}: {[]string{"https"}, `cannot create resource "subjectaccessreviews"`, false},
}

// patchEvents is the message about an event that comes again.
const patchEvents = `cannot patch resource "events"`

// everyList are the lists of the Kubernetes API, which wait for the pods.
var everyList = []string{"pods", "node", "namespaces"}

// rights checks that podconfigd has the rights that it needs, and no others.
func rights(t *testing.T, c *cluster) {
	all := rightsOf(t, c)
	for _, r := range all {
		if _, ok := withoutRight[r]; !ok {
			t.Errorf("the right %v is not in the table of this test: what fails without it?", r)
		}
	}
	token, old := c.reader(t), c.withoutWatchList(t)
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		l := c.startWith(t, "all", token, all)
		for _, step := range []string{"0", "1", "2"} {
			l.label(t, step)
			features := l.features(t, step, testutil.Patience)
			for _, name := range slices.Sorted(maps.Keys(features)) {
				testutil.Eventually(t, features[name])
			}
		}
		if strings.Contains(l.log.String(), "forbidden") {
			t.Error("the log has what is forbidden")
		}
	})
	t.Run("an apiserver without WatchList", func(t *testing.T) {
		t.Parallel()
		l := old.startWith(t, "old", token, all)
		testutil.Eventually(t, l.features(t, "0", testutil.Patience)["pods"])
		if strings.Contains(l.log.String(), "A request to the apiserver failed") {
			t.Error("the log has a failure")
		}
	})
	for i, r := range slices.Collect(maps.Keys(withoutRight)) {
		t.Run(strings.Join([]string{r.verb, r.resource}, " "), func(t *testing.T) {
			t.Parallel()
			others := slices.DeleteFunc(slices.Clone(all), func(other right) bool { return other == r })
			if len(others) == len(all) {
				t.Fatal("deploy/kubernetes does not give this right")
			}
			without := withoutRight[r]
			on := c
			if without.old {
				on = old
			}
			without.test(t, on.startWith(t, fmt.Sprint("without-", i), token, others))
		})
	}
}

func (without *lacks) test(t *testing.T, l *limited) {
	t.Helper()
	works, broken := l.features(t, "0", testutil.Patience), l.features(t, "0", time.Second)
	testutil.Until(t, without.message, func() bool {
		_ = broken["https"]() // a client, without which nobody is authenticated
		if without.message == patchEvents {
			l.reject(t)
		}
		return strings.Contains(strings.ReplaceAll(l.log.String(), `\"`, `"`), without.message)
	})
	for name, check := range works {
		if !slices.Contains(without.features, name) {
			testutil.Eventually(t, check)
		}
	}
	for _, name := range without.features {
		if err := broken[name](); err == nil {
			t.Errorf("%s works", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// rightsOf returns the rights that all components together bind to the service account.
func rightsOf(t *testing.T, c *cluster) (all []right) {
	t.Helper()
	r := objects(t, render(t, overlay(t, "", everyComponent(t)...)))
	roles := make(map[string]*rbacv1.ClusterRole)
	for _, role := range r.roles {
		roles[role.Name] = role
	}
	for _, binding := range r.bindings {
		if s := binding.Subjects; len(s) != 1 || s[0].Name != "podconfigd" || s[0].Namespace != metav1.NamespaceSystem {
			t.Errorf("%s is for %+v", binding.Name, s)
		}
		role := roles[binding.RoleRef.Name]
		if role == nil {
			var err error // a role of every cluster
			if role, err = c.Client.RbacV1().ClusterRoles().Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, rule := range role.Rules {
			all = append(all, rightsOfRule(&rule)...)
		}
	}
	return all
}

func rightsOfRule(rule *rbacv1.PolicyRule) (all []right) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all = append(all, right{group, resource, verb})
			}
		}
	}
	return all
}

// grant creates a role, and binds it to a subject.
func (c *cluster) grant(t *testing.T, name string, rules []rbacv1.PolicyRule, subject rbacv1.Subject) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
	_, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	if err == nil {
		_, err = c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reader returns the token of a client that may read pods over https.
func (c *cluster) reader(t *testing.T) string {
	t.Helper()
	accounts := c.Client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.grant(t, "reader", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/pods"}, Verbs: []string{"get"}}},
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "reader"})
	review, err := accounts.CreateToken(t.Context(), "reader", new(authenticationv1.TokenRequest), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Token
}

// withoutWatchList starts an apiserver without WatchList, as before Kubernetes 1.34.
func (c *cluster) withoutWatchList(t *testing.T) *cluster {
	t.Helper()
	old := *c.Cluster
	old.Address = components.FreeAddress(t)
	c.StartAPIServer(t, old.Address, "--feature-gates=WatchList=false")
	testutil.Eventually(t, func() error {
		out, err := c.kubectl(t, "", "--server", "https://"+old.Address, "get", "--raw", "/readyz")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	return &cluster{Cluster: &old}
}

// limited is a daemon with some rights. Its node, its pod and the pod's namespace have its name.
type limited struct {
	*cluster
	name  string
	log   *testutil.Buffer
	local *client.Client
	https string
	token string // for https
	// manifest is the path of a manifest that is rejected.
	manifest string
}

// startWith runs podconfigd, with everything on that needs rights, as a user with these rights.
func (c *cluster) startWith(t *testing.T, name, token string, all []right) *limited {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, r := range all {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: []string{r.verb}})
	}
	c.grant(t, name, rules, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name})
	dir := testutil.ShortDir(t)
	l := &limited{
		cluster: c, name: name, log: new(testutil.Buffer), local: client.New(filepath.Join(dir, "s")),
		https: components.FreeAddress(t), token: token, manifest: filepath.Join(dir, "manifests", "pod.yaml"),
	}
	l.create(t)
	l.reject(t)
	cmd := exec.CommandContext(t.Context(), testutil.MustProgram(t, ".", "./cmd/podconfigd"),
		"--socket", filepath.Join(dir, "s"), "--hostname-override", name, "--kubeconfig", c.Kubeconfig(t, filepath.Join(dir, "conf"), name),
		"--pod-manifest-path", filepath.Dir(l.manifest), "--file-check-frequency", "100ms", "--namespace-metadata", "--owners", "--listen", "https://"+l.https, "--authentication-token-webhook")
	cmd.Stderr = l.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("podconfigd said:\n%s", l.log)
		}
	})
	return l
}

// reject writes a manifest that is rejected, and has an event. A file that was there is removed, so
// that the same event comes again.
func (l *limited) reject(t *testing.T) {
	t.Helper()
	err := os.Remove(l.manifest)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(os.MkdirAll(filepath.Dir(l.manifest), 0o755), os.WriteFile(l.manifest, []byte("kind: Pod"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// create creates the node, the namespace and the pod.
func (l *limited) create(t *testing.T) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: l.name, Labels: map[string]string{"step": "0"}}
	_, nodeErr := l.Client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: meta}, metav1.CreateOptions{})
	_, namespaceErr := l.Client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	pod := &v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{NodeName: l.name, Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	_, podErr := l.Client.CoreV1().Pods(l.name).Create(t.Context(), pod, metav1.CreateOptions{})
	if err := errors.Join(nodeErr, namespaceErr, podErr, l.createOwned(t, pod)); err != nil {
		t.Fatal(err)
	}
}

// createOwned creates a pod for each kind of owner. The owners do not exist: without the right, that is not known.
func (l *limited) createOwned(t *testing.T, pod *v1.Pod) (err error) {
	t.Helper()
	for kind, apiVersion := range map[string]string{
		"DaemonSet": "apps/v1", "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "CronJob": "batch/v1", "Job": "batch/v1", "ReplicationController": "v1",
	} {
		owned := pod.DeepCopy()
		owned.Name = l.name + "-" + strings.ToLower(kind)
		owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: types.UID(kind), Controller: new(true)}}
		_, failed := l.Client.CoreV1().Pods(l.name).Create(t.Context(), owned, metav1.CreateOptions{})
		err = errors.Join(err, failed)
	}
	return err
}

// label changes the node, the namespace and the pod.
func (l *limited) label(t *testing.T, step string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"step":%q}}}`, step)
	core := l.Client.CoreV1()
	_, nodeErr := core.Nodes().Patch(t.Context(), l.name, types.MergePatchType, patch, metav1.PatchOptions{})
	_, namespaceErr := core.Namespaces().Patch(t.Context(), l.name, types.MergePatchType, patch, metav1.PatchOptions{})
	_, podErr := core.Pods(l.name).Patch(t.Context(), l.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err := errors.Join(nodeErr, namespaceErr, podErr); err != nil {
		t.Fatal(err)
	}
}

// features returns a check of each feature that needs rights. It returns an error while the feature
// does not work, or does not have this step yet. Lists wait for the pods: without a right, until the
// limit.
func (l *limited) features(t *testing.T, step string, limit time.Duration) map[string]func() error {
	t.Helper()
	get := func(transport http.RoundTripper, url string) func() error {
		return func() error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+l.token)
			resp, err := transport.RoundTrip(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return hasStep(resp, step)
		}
	}
	// The certificate is self-signed.
	https := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	return map[string]func() error{
		"pods":       get(l.local, "http://localhost/api/v1/namespaces/"+l.name+"/pods/"+l.name),
		"node":       get(l.local, "http://localhost/api/v1/nodes/"+l.name),
		"namespaces": get(l.local, "http://localhost/api/v1/namespaces/"+l.name),
		"events": func() error {
			list, err := l.Client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + l.name})
			if err == nil && len(list.Items) == 0 {
				err = errors.New("no event")
			}
			return err
		},
		"https": get(https, "https://"+l.https+"/version"),
	}
}

// hasStep reads an object with the label, or the version of podconfigd.
func hasStep(resp *http.Response, step string) error {
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.300s", resp.Status, data)
	}
	if strings.HasSuffix(resp.Request.URL.Path, "/version") {
		return nil
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	if got := object.Labels["step"]; got != step {
		return fmt.Errorf("it has step %q, want %q", got, step)
	}
	return nil
}
