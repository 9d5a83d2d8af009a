package apiserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// events returns the events of podconfigd on an object, as "TYPE REASON MESSAGE", the oldest
// first.
func (c *cluster) events(t *testing.T, kind, name string) (lines []string) {
	t.Helper()
	list, err := c.Client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "source=podconfigd"})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(list.Items, func(a, b v1.Event) int { return strings.Compare(a.Name, b.Name) })
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name {
			lines = append(lines, e.Type+" "+e.Reason+" "+e.Message)
		}
	}
	return lines
}

// awaitEvent waits for an event that begins with a type and a reason and contains a text.
func (c *cluster) awaitEvent(t *testing.T, kind, name, begins, contains string) {
	t.Helper()
	testutil.Until(t, begins+" on "+kind+" "+name, func() bool {
		return slices.ContainsFunc(c.events(t, kind, name), func(line string) bool {
			return strings.HasPrefix(line, begins+" ") && strings.Contains(line, contains)
		})
	})
}

func (c *cluster) describe(t *testing.T, kind, name string) string {
	t.Helper()
	admin := c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), "admin", "system:masters")
	out, err := exec.CommandContext(t.Context(), components.Kubectl(t), "--kubeconfig", admin, "describe", kind, name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// Events on the Node and on the mirror pod have the status of sources and manifests, and kubectl
// describe shows them. In one case, podconfigd has the permissions of rbac.yaml, and another client
// made the mirror pod. In the other, it has the permissions of a node, and made the mirror pod
// itself.
func eventsOnNodeAndMirrorPod(t *testing.T, c *cluster) {
	const ownMirrors = "events-node"
	identities := map[string]func(t *testing.T) string{
		"events": c.kubeconfig,
		ownMirrors: func(t *testing.T) string {
			return c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), "system:node:events-node", "system:nodes")
		},
	}
	for node, kubeconfig := range identities {
		t.Run(node, func(t *testing.T) {
			owner, err := c.Client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			d := c.daemon(t, node, kubeconfig(t), "--removal-brake=50%", fmt.Sprintf("--create-mirror-pods=%t", node == ownMirrors))
			d.PutFile(t, "broken", e2e.Broken)
			c.awaitEvent(t, "Node", node, "Warning ManifestRejected", "broken.yaml:4: spec.containers[0].ports[0].containerPort")
			testutil.Until(t, "the apiserver source", func() bool { return api(t, d).Seen })

			if node != ownMirrors {
				mirror := newPod("static-"+node, node)
				mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "uid-of-" + node}
				mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: owner.UID, Controller: new(true)}}
				if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), mirror, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			d.PutFile(t, "static", e2e.Broken)
			d.Put(t, "twin", "image")
			d.PutFile(t, "twin2", "apiVersion: v1\nkind: Pod\nmetadata: {name: twin}\nspec: {containers: [{name: c, image: other}]}\n")
			c.awaitEvent(t, "Node", node, "Warning ManifestHeld", "static.yaml:4: spec.containers[0].ports[0].containerPort")
			c.awaitEvent(t, "Pod", "static-"+node, "Warning ManifestHeld", "static.yaml:4: spec.containers[0].ports[0].containerPort")
			c.awaitEvent(t, "Node", node, "Warning ManifestShadowed", "twin2.yaml")

			d.Put(t, "static", "image")
			c.awaitEvent(t, "Pod", "static-"+node, "Normal ManifestAccepted", "static.yaml")

			manifests := filepath.Join(d.Dir, "manifests")
			if err := os.Rename(manifests, manifests+"-away"); err != nil {
				t.Fatal(err)
			}
			c.awaitEvent(t, "Node", node, "Warning SourceDegraded", "source file: it can't be read, keeping its last pods: ")
			if err := os.Mkdir(manifests, 0o755); err != nil {
				t.Fatal(err)
			}
			c.awaitEvent(t, "Node", node, "Warning RemovalHeld", `of 2 pods is held; to apply it, run "podconfigctl release file --removes=`)
			if err := errors.Join(os.Remove(manifests), os.Rename(manifests+"-away", manifests)); err != nil {
				t.Fatal(err)
			}
			c.awaitEvent(t, "Node", node, "Normal RemovalHoldEnded", "source file: no set is held any more")
			c.awaitEvent(t, "Node", node, "Normal SourceRecovered", "source file: it can be read again")
			for _, described := range []string{c.describe(t, "node", node), c.describe(t, "pod", "static-"+node)} {
				_, table, _ := strings.Cut(described, "\nEvents:")
				if !strings.Contains(table, "podconfigd") || !strings.Contains(table, "ManifestHeld") {
					t.Errorf("kubectl describe shows no event:\n%s", described)
				}
			}
			if log := d.Log.String(); strings.Contains(log, "vent to the apiserver") {
				t.Errorf("it logged a failure of events:\n%s", log)
			}
		})
	}
}

// An apiserver that does not answer delays nothing, not even the end.
func TestEventsOfAHangingApiserver(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()                                                                       // nobody accepts, and the kernel connects
	testutil.Within(t, 2*time.Second, "the end while events wait", func() time.Duration { // short: the end is tested
		dir := testutil.ShortDir(t)
		kubeconfig := filepath.Join(dir, "kubeconfig")
		components.WriteKubeconfig(t, kubeconfig, components.NewKubeconfig("http://"+l.Addr().String(), nil))
		d := e2e.Start(t, dir, "--kubeconfig", kubeconfig)
		d.Mkdir(t)
		d.PutFile(t, "broken", e2e.Broken)
		testutil.Until(t, "an event waits", func() bool {
			_, _, body := d.Ask(t, "/metrics")
			return strings.Contains(body, "podconfigd_events_pending 1\n")
		})
		f := e2e.Follow(t, d)
		d.Put(t, "static", "image")
		f.Await(t, "the static pod", func(pods map[string]*v1.Pod) bool { return len(pods) == 1 })
		took, err := d.End(t, syscall.SIGTERM)
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
		return took
	})
}

// Without the permission to create events, one line is logged, and nothing else changes. With the
// permission, the conditions that still exist have their events.
func eventsForbidden(t *testing.T, c *cluster) {
	const node = "events-forbidden"
	c.addNode(t, node)
	c.addPod(t, node, node)
	role, err := c.Client.RbacV1().ClusterRoles().Get(t.Context(), components.User, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	less := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: node}}
	for _, rule := range role.Rules {
		if !slices.Contains(rule.Resources, "events") {
			less.Rules = append(less.Rules, rule)
		}
	}
	if len(less.Rules) != len(role.Rules)-1 {
		t.Fatalf("the rules are %v", role.Rules)
	}
	if _, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), less, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: less.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: node},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: node}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d := c.daemon(t, node, c.Kubeconfig(t, filepath.Join(testutil.ShortDir(t), "kubeconfig"), node))
	d.PutFile(t, "broken", e2e.Broken)
	d.PutFile(t, "gone", e2e.Broken)
	testutil.Until(t, "a line in the log", func() bool { return strings.Contains(d.Log.String(), "Could not write an event") })
	if err := os.Remove(filepath.Join(d.Dir, "manifests", "gone.yaml")); err != nil {
		t.Fatal(err)
	}
	recovers(t, d, node)
	testutil.Until(t, "one rejected manifest", func() bool {
		return slices.IndexFunc(d.Source(t, "file").File.Manifests, func(m v1alpha1.Manifest) bool { return strings.HasSuffix(m.Path, "gone.yaml") }) < 0
	})
	c.Bind(t, node)
	c.awaitEvent(t, "Node", node, "Warning ManifestRejected", "broken.yaml:4")
	if all := c.events(t, "Node", node); len(all) != 1 {
		t.Errorf("events: %q", all)
	}
	if n := strings.Count(d.Log.String(), "Could not write an event"); n != 1 || !strings.Contains(d.Log.String(), `cannot create resource \"events\"`) {
		t.Errorf("%d lines:\n%s", n, d.Log)
	}
}
