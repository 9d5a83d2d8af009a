package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// ownersOfPods finds the owners of pods of a Deployment, of a CronJob, and of a custom resource. Each owner takes one get of the
// apiserver. They follow when the controllers of pods change. After a restart without an apiserver, they are known.
func ownersOfPods(t *testing.T, c *cluster) {
	c.addNode(t, "owners")
	deployment, set := c.deployment(t, "owners-checkout")
	cron, job := c.cronJob(t, "owners-nightly")
	widget := c.widget(t, "owners-widget")
	chains := map[string][]v1alpha1.Owner{
		"owners-a": {set, deployment}, "owners-b": {set, deployment}, "owners-c": {job, cron}, "owners-d": {widget}, "owners-bare": nil,
	}
	for name, chain := range chains {
		c.ownedPod(t, name, "owners", chain)
	}
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), "owners", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	kubeconfig, state := c.kubeconfig(t), filepath.Join(testutil.ShortDir(t), "state")
	args := []string{"--kubeconfig", kubeconfig, "--hostname-override", "owners", "--owners", "--state-dir", state}
	d := c.daemon(t, "owners", kubeconfig, args...)
	chains["static-owners"] = []v1alpha1.Owner{
		{Kind: v1alpha1.FileKind, Name: filepath.Join(d.Dir, "manifests", "static.yaml")},
		{APIVersion: "v1", Kind: "Node", Name: "owners", UID: string(node.UID)},
	}
	streamHasOwners(t, d, chains)
	for name, chain := range chains {
		testutil.Eventually(t, func() error { return hasOwners(t, d, name, chain) })
	}
	status, err := d.Client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&v1alpha1.OwnersStatus{Known: 5}, status.Owners); diff != "" || len(status.Problems) > 0 {
		t.Errorf("%s, %q", diff, status.Problems)
	}
	for command, line := range map[string]string{
		"lookup -o wide owners-a": ` +OWNER\ndefault +owners-a .* +deployment/owners-checkout\n$`,
		"get pods -o wide":        ` +OWNER\n(.*\n)*default +owners-c .* +cronjob/owners-nightly\n(.*\n)*default +static-owners .* +node/owners\n`,
		"status":                  `Owners: +5 known\n`,
		"get pods --owner Deployment.apps/owners-checkout --no-headers": `^default +owners-a .*\ndefault +owners-b .*\n$`,
		"get pods --owner node/owners --no-headers":                     `^default +static-owners .*\n$`,
		"history --owner cronjob/owners-nightly":                        `^TIME .*\n.* ADD +api +default/owners-c .*\n(.* default/owners-c .*\n)*$`,
	} {
		if out, code := d.Run(t, strings.Fields(command)...); !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("%s: %d\n%s", command, code, out)
		}
	}
	want := []string{"GET cronjobs 1", "GET deployments 1", "GET jobs 1", "GET replicasets 1", "GET widgets 1"}
	if got := c.requestsForOwners(t); !slices.Equal(got, want) {
		t.Errorf("the apiserver counts %q, want %q", got, want)
	}

	testutil.Until(t, "the owners are stored", func() bool {
		data, err := os.ReadFile(filepath.Join(state, "owners.json"))
		return err == nil && strings.Count(string(data), `"kind"`) == 5+2 // two of them with the reference to the next one
	})
	ownersChange(t, c, d, chains)
	testutil.Until(t, "the new owners are stored", func() bool {
		data, err := os.ReadFile(filepath.Join(state, "owners.json"))
		return err == nil && strings.Count(string(data), `"name":"owners-adopter"`) == 2
	})
	d = d.Again(t, func() {
		components.WriteKubeconfig(t, kubeconfig, components.NewKubeconfig("https://127.0.0.1:1", c.Authority.PEM))
	}, args...)
	for name, chain := range chains {
		if name == "static-owners" {
			chain[1].UID = "" // the Node is not known
		}
		testutil.Eventually(t, func() error { return hasOwners(t, d, name, chain) })
	}
}

// ownersChange has a ReplicaSet adopt a pod of another one and a pod without a controller, and orphans a pod. It changes the chains.
func ownersChange(t *testing.T, c *cluster, d *e2e.Daemon, chains map[string][]v1alpha1.Owner) {
	t.Helper()
	before, err := d.Client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	deployment, set := c.deployment(t, "owners-adopter")
	changed := map[string][]v1alpha1.Owner{"owners-b": {set, deployment}, "owners-bare": {set, deployment}, "owners-d": nil}
	for name, chain := range changed {
		references := []metav1.OwnerReference{}
		if chain != nil {
			references = controlledBy(&chain[0])
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": references}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Client.CoreV1().Pods("default").Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.patch(t.Context(), "owners-a", `{"status":{"reason":"Last"}}`, "status"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	references := map[string]string{"owners-b": set.UID, "owners-bare": set.UID, "owners-d": ""}
	ended := false
	for u, err := range d.Client.Updates(ctx, client.Options{Instance: before.Instance, Since: before.Revision}) { // without their owners
		if err != nil || u.Reset {
			t.Fatalf("the stream: %v, %+v", err, u)
		}
		for _, p := range u.Pods {
			uid := ""
			for i := range p.OwnerReferences {
				uid = string(p.OwnerReferences[i].UID)
			}
			if want, waits := references[p.Name]; waits && u.Op == v1alpha1.OpReconcile && uid == want {
				delete(references, p.Name)
			}
			ended = ended || p.Status.Reason == "Last"
		}
		if ended {
			break
		}
	}
	if !ended || len(references) > 0 {
		t.Fatalf("the stream has no RECONCILE of %v; the last change came: %t", references, ended)
	}
	maps.Copy(chains, changed)
	for name, chain := range chains {
		testutil.Eventually(t, func() error { return hasOwners(t, d, name, chain) })
	}
	streamHasOwners(t, d, chains)
	for command, line := range map[string]string{
		"get pods --owner deployment/owners-adopter --no-headers":  `^default +owners-b .*\ndefault +owners-bare .*\n$`,
		"get pods --owner deployment/owners-checkout --no-headers": `^default +owners-a .*\n$`,
		"get pods -o wide owners-b":                                ` +deployment/owners-adopter\n$`,
		"history --owner replicaset/owners-adopter-7d9f":           `RECONCILE +api +default/owners-b .*ownerReferences`,
	} {
		if out, code := d.Run(t, strings.Fields(command)...); !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("%s: %d\n%s", command, code, out)
		}
	}
}

// streamHasOwners reads the stream until it has sent the owners of the pods.
func streamHasOwners(t *testing.T, d *e2e.Daemon, want map[string][]v1alpha1.Owner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	got := make(map[string][]v1alpha1.Owner)
	for u, err := range d.Client.Updates(ctx, client.Options{Owners: true, NoMirrorPods: true}) {
		if err != nil {
			break
		}
		for _, p := range u.Pods {
			got[p.Name] = u.Owners[string(p.UID)]
		}
		if cmp.Equal(got, want) {
			return
		}
	}
	t.Errorf("the stream: %s", cmp.Diff(want, got))
}

// hasOwners compares the owners of a pod in a lookup.
func hasOwners(t *testing.T, d *e2e.Daemon, name string, want []v1alpha1.Owner) error {
	t.Helper()
	pods, err := d.Client.Pods(t.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pods.Items, func(p v1.Pod) bool { return p.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no pod %s", name)
	}
	found, err := d.Client.Lookup(t.Context(), client.LookupQuery{PodUID: string(pods.Items[i].UID)})
	if err != nil {
		return err
	}
	if diff := cmp.Diff(want, found.Pods[0].Owners); diff != "" {
		return fmt.Errorf("%s: %s", name, diff)
	}
	return nil
}

// requestsForOwners returns the requests that read owners, as the apiserver counts them.
func (c *cluster) requestsForOwners(t *testing.T) (all []string) {
	t.Helper()
	data, err := c.Client.Discovery().RESTClient().Get().AbsPath("/metrics").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`^apiserver_request_total\{code="200".*resource="(replicasets|deployments|jobs|cronjobs|widgets)".*verb="(GET|LIST|WATCH)".*\} ([0-9]+)$`)
	for line := range strings.Lines(string(data)) {
		if m := read.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			all = append(all, m[2]+" "+m[1]+" "+m[3])
		}
	}
	slices.Sort(all)
	return all
}

// ownedPod creates a pod whose controller is the first of the owners.
func (c *cluster) ownedPod(t *testing.T, name, node string, owners []v1alpha1.Owner) {
	t.Helper()
	pod := newPod(name, node)
	if len(owners) > 0 {
		pod.OwnerReferences = controlledBy(&owners[0])
	}
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func controlledBy(o *v1alpha1.Owner) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: types.UID(o.UID), Controller: new(true)}}
}

// owner returns an object as the owner of others.
func owner(t *testing.T, apiVersion, kind string, object metav1.Object, err error) v1alpha1.Owner {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v1alpha1.Owner{APIVersion: apiVersion, Kind: kind, Name: object.GetName(), UID: string(object.GetUID()), Labels: object.GetLabels()}
}

// deployment creates a Deployment and its ReplicaSet.
func (c *cluster) deployment(t *testing.T, name string) (top, below v1alpha1.Owner) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "shop"}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}, Spec: newPod("", "").Spec}
	deployment, err := c.Client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	top = owner(t, "apps/v1", "Deployment", deployment, err)
	meta.Name, meta.OwnerReferences = name+"-7d9f", controlledBy(&top)
	set, err := c.Client.AppsV1().ReplicaSets("default").Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	return top, owner(t, "apps/v1", "ReplicaSet", set, err)
}

// cronJob creates a CronJob and its Job.
func (c *cluster) cronJob(t *testing.T, name string) (top, below v1alpha1.Owner) {
	t.Helper()
	spec := batchv1.JobSpec{Template: v1.PodTemplateSpec{Spec: newPod("", "").Spec}}
	spec.Template.Spec.RestartPolicy = v1.RestartPolicyNever
	cron, err := c.Client.BatchV1().CronJobs("default").Create(t.Context(), &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "data"}},
		Spec:       batchv1.CronJobSpec{Schedule: "0 3 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{})
	top = owner(t, "batch/v1", "CronJob", cron, err)
	job, err := c.Client.BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-29", OwnerReferences: controlledBy(&top)}, Spec: spec,
	}, metav1.CreateOptions{})
	return top, owner(t, "batch/v1", "Job", job, err)
}

// widget creates a custom resource, and lets podconfigd read it.
func (c *cluster) widget(t *testing.T, name string) v1alpha1.Owner {
	t.Helper()
	_, err := c.Client.RbacV1().ClusterRoles().Patch(t.Context(), "podconfigd:owners", types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/rules/-","value":{"apiGroups":["example.org"],"resources":["widgets"],"verbs":["get"]}}]`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	post := func(path, body string) (*metav1.PartialObjectMetadata, error) {
		data, err := c.Client.Discovery().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Raw()
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, data)
		}
		object := new(metav1.PartialObjectMetadata)
		return object, json.Unmarshal(data, object)
	}
	if _, err := post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{
		"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.org"},
		"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`); err != nil {
		t.Fatal(err)
	}
	var widget *metav1.PartialObjectMetadata
	testutil.Eventually(t, func() (err error) { // its path is served a moment later
		widget, err = post("/apis/example.org/v1/namespaces/default/widgets",
			`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"`+name+`","labels":{"team":"tools"}}}`)
		return err
	})
	return owner(t, "example.org/v1", "Widget", widget, nil)
}

// ownersForbidden has the credentials of a kubelet, which may not read owners: that is a note and no problem, and the pods have the
// controllers of their references.
func ownersForbidden(t *testing.T, c *cluster) {
	const node = "owners-forbidden"
	c.addNode(t, node)
	_, set := c.deployment(t, node)
	c.ownedPod(t, node, node, []v1alpha1.Owner{set})
	set.Labels = nil
	d := c.daemon(t, node, c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), "system:node:"+node, "system:nodes"), "--owners")
	testutil.Eventually(t, func() error { return hasOwners(t, d, node, []v1alpha1.Owner{set}) })
	testutil.Eventually(t, func() error {
		status, err := d.Client.Status(t.Context())
		if err != nil {
			return err
		}
		o := status.Owners
		if o == nil || o.Waiting != 1 || o.LastError != "" || len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "cannot get resource") ||
			!status.Ready || len(status.Problems) > 0 {
			return fmt.Errorf("%+v, ready %t, %q", o, status.Ready, status.Problems)
		}
		return nil
	})
	const line = "refuses to show owners"
	testutil.Until(t, "the log has it", func() bool { return strings.Contains(d.Log.String(), line) }) // it comes after the status
	if n := strings.Count(d.Log.String(), line); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
}
