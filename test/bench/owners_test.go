package bench

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

const (
	ownedNodes, podsOfNode     = 20, 30
	deployments                = 60
	podsOfDeployment           = ownedNodes * podsOfNode / deployments
	ownersSettling, ownersPoll = 30 * time.Second, time.Second
)

// BenchmarkOwners measures what it costs that an agent on each of 20 nodes knows the Deployments of its 30 pods: the requests and the
// bytes of answers and watches that a kube-apiserver counts for ReplicaSets and Deployments, from the start of the agents and during a
// rollout of all 60 Deployments, and the anonymous memory of an agent half a minute later, in the median. It compares podconfigd with
// agents that have an informer of ReplicaSets, of their metadata or of whole objects. Beside the 60 ReplicaSets, and those of earlier
// rollouts, there are others, as earlier revisions of Deployments are. There are no controllers: the benchmark writes what they do.
func BenchmarkOwners(b *testing.B) {
	for _, others := range []int{0, 5000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			c := newOwnedCluster(b, others)
			for _, agent := range []string{"podconfigd", "podconfigd-without", "metadata", "full", "none"} {
				b.Run("agent="+agent, func(b *testing.B) { c.measure(b, agent) })
			}
		})
	}
}

// ownedCluster is a cluster of 20 nodes with 30 pods each.
type ownedCluster struct {
	*components.Cluster
	kubeconfig string
	// generation is the number of rollouts, and sets are the present ReplicaSets.
	generation int
	sets       []*appsv1.ReplicaSet
	tops       []*appsv1.Deployment
}

func newOwnedCluster(b *testing.B, others int) *ownedCluster {
	b.Helper()
	c := &ownedCluster{Cluster: components.Start(b), sets: make([]*appsv1.ReplicaSet, deployments), tops: make([]*appsv1.Deployment, deployments)}
	c.kubeconfig = c.Kubeconfig(b, filepath.Join(testutil.ShortDir(b), "kubeconfig"), "admin", "system:masters")
	parallel(b, ownedNodes, func(ctx context.Context, i int) error {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node%d", i)}}
		_, err := c.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
	parallel(b, deployments, func(ctx context.Context, i int) (err error) {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("checkout%d", i)}}
		d.Spec.Selector, d.Spec.Template = templateOf(d.Name)
		c.tops[i], err = c.Client.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{})
		return err
	})
	parallel(b, others, func(ctx context.Context, i int) error {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other%d-7d9f8b6c5d", i)}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32)}}
		selector, template := templateOf(set.Name)
		set.Spec.Selector, set.Spec.Template, set.Labels = selector, template, selector.MatchLabels
		_, err := c.Client.AppsV1().ReplicaSets("default").Create(ctx, set, metav1.CreateOptions{})
		return err
	})
	c.rollout(b)
	return c
}

// parallel calls a function n times, 16 at a time.
func parallel(b *testing.B, n int, do func(ctx context.Context, i int) error) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// templateOf returns a selector, and a template of a pod with 3 containers of 10 variables.
func templateOf(name string) (*metav1.LabelSelector, v1.PodTemplateSpec) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}}
	template.Spec.AutomountServiceAccountToken = new(bool)
	for i := range 3 {
		container := v1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example.org/shop/checkout:1.0"}
		for k := range 10 {
			container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", k), Value: "a value of some length"})
		}
		template.Spec.Containers = append(template.Spec.Containers, container)
	}
	return selector, template
}

// rollout replaces the ReplicaSet of each Deployment, and then its pods.
func (c *ownedCluster) rollout(b *testing.B) {
	b.Helper()
	c.generation++
	parallel(b, deployments, func(ctx context.Context, i int) error { return c.rollOne(ctx, i) })
}

// rollOne replaces the pods of a Deployment, at most 3 at a time. As the controllers do, it writes the size and the status of both
// ReplicaSets at each step: 17 writes with the new ReplicaSet.
func (c *ownedCluster) rollOne(ctx context.Context, i int) (err error) {
	sets, pods := c.Client.AppsV1().ReplicaSets("default"), c.Client.CoreV1().Pods("default")
	top, before := c.tops[i], c.sets[i]
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%d", top.Name, c.generation), Labels: top.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(top, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32), Selector: top.Spec.Selector, Template: top.Spec.Template}}
	if set, err = sets.Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return err
	}
	resize := func(set *appsv1.ReplicaSet, n int) (*appsv1.ReplicaSet, error) {
		set.Spec.Replicas = new(int32(n))
		set, err := sets.Update(ctx, set, metav1.UpdateOptions{})
		if err != nil {
			return nil, err
		}
		set.Status.Replicas, set.Status.ReadyReplicas = int32(n), int32(n)
		return sets.UpdateStatus(ctx, set, metav1.UpdateOptions{})
	}
	for k := range podsOfDeployment {
		at := i + k*deployments
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", set.Name, k), Labels: set.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		}, Spec: *top.Spec.Template.Spec.DeepCopy()}
		pod.Spec.NodeName = fmt.Sprintf("node%d", at/podsOfNode)
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		if before != nil {
			if err := pods.Delete(ctx, fmt.Sprintf("%s-%d", before.Name, k), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				return err
			}
		}
		if k%3 != 2 && k != podsOfDeployment-1 {
			continue
		}
		if set, err = resize(set, k+1); err != nil {
			return err
		}
		if before != nil {
			if before, err = resize(before, podsOfDeployment-1-k); err != nil {
				return err
			}
		}
	}
	c.sets[i] = set
	return nil
}

// counts are what the apiserver has counted for ReplicaSets and Deployments.
type counts struct{ gets, lists, watches, bytes float64 }

var ownerMetric = regexp.MustCompile(`^apiserver_(request_total|response_sizes_sum|watch_events_sizes_sum|longrunning_requests)\{(.*resource="(?:replicasets|deployments)".*)\} (\S+)$`)

func (c *ownedCluster) counts(b *testing.B) (n counts) {
	b.Helper()
	for _, m := range samples(b, c.Cluster, ownerMetric) {
		has := func(verb string) bool { return strings.Contains(m.labels, `verb="`+verb+`"`) }
		switch {
		case m.name == "request_total" && has("GET"):
			n.gets += m.value
		case m.name == "request_total" && has("LIST"):
			n.lists += m.value
		case m.name == "longrunning_requests" && has("WATCH"):
			n.watches += m.value
		case m.name == "response_sizes_sum" && (has("GET") || has("LIST")), m.name == "watch_events_sizes_sum":
			n.bytes += m.value
		}
	}
	return n
}

// sample is a value of a metric, whose name is without the prefix.
type sample struct {
	name, labels string
	value        float64
}

// samples returns the metrics of the apiserver that match: name, labels and value are the groups of the expression.
func samples(b *testing.B, c *components.Cluster, matching *regexp.Regexp) (all []sample) {
	b.Helper()
	data, err := c.Client.Discovery().RESTClient().Get().AbsPath("/metrics").Do(b.Context()).Raw()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		m := matching.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, sample{m[1], m[2], value})
	}
	return all
}

// settled returns the counts once nothing changes them for three polls, and every daemon knows the owners.
func (c *ownedCluster) settled(b *testing.B, known func() bool) (n counts) {
	b.Helper()
	for same := 0; same < 3; {
		pause(b, ownersPoll)
		if next := c.counts(b); next != n || !known() {
			n, same = next, 0
			continue
		}
		same++
	}
	return n
}

func (c *ownedCluster) measure(b *testing.B, agent string) {
	b.Helper()
	var started, rolled counts
	var anonymous, peak []float64
	for b.Loop() {
		before := c.settled(b, func() bool { return true })
		var all []*process
		var clients []*client.Client
		for i := range ownedNodes {
			if agent != "podconfigd" && agent != "podconfigd-without" {
				all = append(all, start(b, buildOwnerAgent, func(*exec.Cmd) {}, c.kubeconfig, agent))
				continue
			}
			socket := filepath.Join(testutil.ShortDir(b), "s")
			args := []string{"--kubeconfig", c.kubeconfig, "--hostname-override", fmt.Sprintf("node%d", i), "--socket", socket}
			if agent == "podconfigd" {
				args, clients = append(args, "--owners"), append(clients, client.New(socket))
			}
			all = append(all, start(b, buildPodconfigd, func(*exec.Cmd) {}, args...))
		}
		known := func() bool {
			for _, c := range clients {
				status, err := c.Status(b.Context())
				// The Deployments of a node, and as many ReplicaSets.
				if err != nil || status.Owners == nil || status.Owners.Waiting > 0 || status.Owners.Known != 2*podsOfNode || status.Pods != podsOfNode {
					return false
				}
			}
			return true
		}
		atStart := c.settled(b, known)
		c.rollout(b)
		after := c.settled(b, known)
		pause(b, ownersSettling)
		for _, p := range all {
			anonymous, peak = append(anonymous, p.memory(b, "RssAnon")), append(peak, p.memory(b, "VmHWM"))
			p.stop()
		}
		started, rolled = atStart.since(before), after.since(atStart)
	}
	const kilobyte, megabyte = 1e3, 1e6
	slices.Sort(anonymous)
	slices.Sort(peak)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(started.gets, "start-gets")
	b.ReportMetric(started.lists, "start-lists")
	b.ReportMetric(started.watches, "watches")
	b.ReportMetric(started.bytes/kilobyte, "start-kB")
	b.ReportMetric(rolled.gets, "rollout-gets")
	b.ReportMetric(rolled.lists, "rollout-lists")
	b.ReportMetric(rolled.bytes/kilobyte, "rollout-kB")
	b.ReportMetric(anonymous[len(anonymous)/2]/megabyte, "anon-MB")
	b.ReportMetric(peak[len(peak)/2]/megabyte, "peak-MB")
}

func (n counts) since(before counts) counts {
	return counts{n.gets - before.gets, n.lists - before.lists, n.watches - before.watches, n.bytes - before.bytes}
}
