package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// logAgent asks for the pod of a log, as an agent of another project does. found is whether it gets the pod's labels.
type logAgent struct {
	name  string
	found func(context.Context, *v1.Pod) (bool, error)
	// ended and restarted are whether it gets them after the pod has ended, and after podconfigd has started again.
	ended, restarted bool
}

// TestTwoSeconds asks for a pod that lives for two seconds in the way of Fluent Bit, of Vector, and with a lookup: while the pod
// runs, after it has ended, and after a kill of podconfigd. docs/how-to/clients.md has the answers.
func TestTwoSeconds(t *testing.T) {
	testutil.Long(t)
	cri := components.StartRuntime(t, components.Containerd)
	n := newNode(t, &containerd{cri}, true)
	n.start(t)
	testutil.Eventually(t, func() error { _, err := n.pods(); return err })
	api, err := kubernetes.NewForConfig(n.restConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	agents := []logAgent{
		{"Fluent Bit with Use_Kubelet", kubeletAnswer(api), false, false},
		{"Fluent Bit", apiAnswer(api), false, false},
		{"Vector", watched(t, api), true, true},
		{"lookup", n.lookedUp, true, true},
	}

	n.write(t, "brief")
	pod := n.brief(t)
	sandbox := cri.Sandbox(t, pod.Name, string(pod.UID))
	container := cri.Create(t, sandbox, pod.Name, string(pod.UID), "c", "sleep", "2s")
	cri.StartContainer(t, container)
	for _, a := range agents {
		a.expect(t, pod, "while it runs", true)
	}
	if code := cri.ExitCode(t, container); code != 0 {
		t.Fatalf("the container exited with %d", code)
	}
	cri.RemoveSandbox(t, sandbox)
	n.remove(t, "brief")
	testutil.Eventually(t, func() error { _, err := n.pods(); return err })
	late := logAgent{"Vector, started later", watched(t, api), false, false}
	for _, a := range append(agents, late) {
		a.expect(t, pod, "after it has ended", a.ended)
	}
	n.kill(t)
	n.start(t)
	for _, a := range append(agents, late) {
		a.expect(t, pod, "after a restart", a.restarted)
	}
}

// expect asks until there is an answer. An answer that the agent does not have yet may come.
func (a *logAgent) expect(t *testing.T, pod *v1.Pod, when string, want bool) {
	t.Helper()
	testutil.Eventually(t, func() error {
		found, err := a.found(t.Context(), pod)
		if err == nil && found != want {
			err = fmt.Errorf("%s, %s: found: %t", a.name, when, found)
		}
		return err
	})
}

// brief returns the pod of the manifest with this name.
func (n *node) brief(t *testing.T) (pod *v1.Pod) {
	t.Helper()
	testutil.Eventually(t, func() error {
		pods, err := n.pods()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pods, func(p v1.Pod) bool { return p.Name == "brief-node1" })
		if i < 0 {
			return errors.New("the pod is not in /pods")
		}
		pod = &pods[i]
		return nil
	})
	return pod
}

// kubeletAnswer asks the kubelet for all pods.
func kubeletAnswer(api *kubernetes.Clientset) func(context.Context, *v1.Pod) (bool, error) {
	return func(ctx context.Context, pod *v1.Pod) (bool, error) {
		data, err := api.RESTClient().Get().AbsPath("/pods").DoRaw(ctx)
		if err != nil {
			return false, err
		}
		var list v1.PodList
		if err := json.Unmarshal(data, &list); err != nil {
			return false, err
		}
		return slices.ContainsFunc(list.Items, func(p v1.Pod) bool {
			return p.Namespace == pod.Namespace && p.Name == pod.Name && p.Labels["app"] == "web"
		}), nil
	}
}

// apiAnswer asks the apiserver for the pod by name.
func apiAnswer(api *kubernetes.Clientset) func(context.Context, *v1.Pod) (bool, error) {
	return func(ctx context.Context, pod *v1.Pod) (bool, error) {
		got, err := api.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && got.Labels["app"] == "web", err
	}
}

// watched watches the pods, and keeps those that were deleted. Vector keeps them for a minute: delay_deletion_ms.
func watched(t *testing.T, api *kubernetes.Clientset) func(context.Context, *v1.Pod) (bool, error) {
	t.Helper()
	var mu sync.Mutex
	seen := make(map[string]bool)
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector, o.LabelSelector = "spec.nodeName=node1", "vector.dev/exclude!=true"
	}))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		mu.Lock()
		defer mu.Unlock()
		seen[string(object.(*v1.Pod).UID)] = true
	}}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	factory.WaitForCacheSync(t.Context().Done())
	return func(_ context.Context, pod *v1.Pod) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return seen[string(pod.UID)], nil
	}
}

// lookedUp asks for the path of the log.
func (n *node) lookedUp(ctx context.Context, pod *v1.Pod) (bool, error) {
	found, err := n.client.Lookup(ctx, client.LookupQuery{LogPath: fmt.Sprintf("/var/log/pods/%s_%s_%s/c/0.log", pod.Namespace, pod.Name, pod.UID)})
	var refused *client.RefusedError
	if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return false, nil
	}
	return err == nil && found.Pods[0].Labels["app"] == "web", err
}
