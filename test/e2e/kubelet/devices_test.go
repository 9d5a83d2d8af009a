package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// resource is the resource of the four devices.
const resource = "example.com/gpu"

// node is podconfigd beside a kubelet with devices. The socket of the kubelet is behind a link, which is not there at first.
type node struct {
	*e2e.Daemon

	kubelet *components.Kubelet
	link    string
}

// TestDevices assigns, frees and reassigns devices, while the kubelet restarts, hangs, or is not there.
func TestDevices(t *testing.T) {
	testutil.Long(t)
	if os.Geteuid() != 0 {
		t.Skip("runs a kubelet, which takes root")
	}
	r, dir := components.StartRuntime(t, components.Containerd), testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	n := &node{link: filepath.Join(dir, "k")}
	n.Daemon = e2e.Start(t, dir, "--container-runtime-endpoint", "unix://"+r.Socket, "--pod-resources-socket", n.link)
	n.await(t, "no socket", func(s *v1alpha1.DevicesStatus) bool {
		return s.LastList == nil && strings.Contains(s.LastError, "no such file")
	})

	n.kubelet = components.StartKubelet(t, r, "node1", filepath.Join(dir, "manifests"))
	components.StartDevicePlugin(t, resource, "gpu-0", "gpu-1", "gpu-2", "gpu-3")
	if err := os.Symlink(n.kubelet.PodResources, n.link); err != nil {
		t.Fatal(err)
	}
	n.allocatable(t, 4)
	n.put(t, "train", 2, "")
	n.put(t, "infer", 1, "")
	trained, inferred := n.has(t, "train", 2), n.has(t, "infer", 1)
	if slices.Contains(trained, inferred[0]) {
		t.Errorf("train has %v, infer has %v", trained, inferred)
	}
	n.shown(t, trained[0])
	if _, _, body := n.Ask(t, "/metrics/devices"); strings.Count(body, "\npodconfigd_device_info{") != 3 || !strings.Contains(body, fmt.Sprintf("device=%q", inferred[0])) {
		t.Errorf("the metrics are %s", body)
	}

	// What is freed is assigned again, also to another pod with the same name.
	n.remove(t, "train")
	for _, device := range trained {
		n.free(t, device)
	}
	n.put(t, "train", 3, "another")
	again := n.has(t, "train", 3)
	if slices.Contains(again, inferred[0]) || !slices.Contains(again, trained[0]) {
		t.Errorf("train has %v, then %v; infer has %v", trained, again, inferred)
	}

	// A kubelet that is away, or starts again, takes no device away.
	n.kubelet.Kill(t)
	n.await(t, "the kubelet is away", func(s *v1alpha1.DevicesStatus) bool { return s.LastError != "" })
	n.same(t, "train", again)
	n.kubelet.Start(t)
	n.await(t, "the kubelet is back", func(s *v1alpha1.DevicesStatus) bool { return s.LastError == "" })
	n.allocatable(t, 4)
	n.same(t, "train", again)

	// A kubelet that hangs delays nothing.
	n.kubelet.Signal(t, syscall.SIGSTOP)
	n.await(t, "the kubelet hangs", func(s *v1alpha1.DevicesStatus) bool { return strings.Contains(s.LastError, "DeadlineExceeded") })
	n.same(t, "train", again)
	pods := n.Watch(t, client.Options{})
	e2e.SyncUp(t, pods)
	n.remove(t, "infer")
	pods.Expect(t, "REMOVE infer-node1")
	n.kubelet.Signal(t, syscall.SIGCONT)
	n.free(t, inferred[0])
	n.same(t, "train", again)
}

// put puts the manifest of a pod with devices. Another version has another UID.
func (n *node) put(t *testing.T, name string, devices int, version string) {
	t.Helper()
	n.PutFile(t, name, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {version: %q}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: %q, resources: {limits: {%s: %d}}}]
`, name, version, components.Image, resource, devices))
}

func (n *node) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(n.Dir, "manifests", name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// await waits for a status of the devices. What is wrong with the kubelet is no problem of podconfigd.
func (n *node) await(t *testing.T, what string, is func(*v1alpha1.DevicesStatus) bool) {
	t.Helper()
	testutil.Eventually(t, func() error {
		status, err := n.Client.Status(t.Context())
		switch {
		case err != nil:
			return err
		case status.Devices == nil || !is(status.Devices):
			return fmt.Errorf("%s: the status is %+v", what, status.Devices)
		}
		return nil
	})
}

// allocatable waits until the kubelet has that many devices.
func (n *node) allocatable(t *testing.T, want int) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+n.kubelet.PodResources, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	testutil.Eventually(t, func() error {
		all, err := podresourcesv1.NewPodResourcesListerClient(conn).GetAllocatableResources(t.Context(), new(podresourcesv1.AllocatableResourcesRequest))
		if n := len(all.GetDevices()); err == nil && n != want {
			err = fmt.Errorf("the kubelet has %d devices", n)
		}
		return err
	})
}

// devices returns the devices of a pod.
func (n *node) devices(ctx context.Context, name string) (all []string, err error) {
	pods, err := n.Client.Pods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].Name != name+"-node1" {
			continue
		}
		found, err := n.Client.Lookup(ctx, client.LookupQuery{PodUID: string(pods.Items[i].UID)})
		if err != nil {
			return nil, err
		}
		for _, r := range found.Pods[0].Resources {
			for _, d := range r.Devices {
				if r.Container != "main" || d.Resource != resource || !slices.Equal(d.NUMA, []int64{0}) {
					return nil, fmt.Errorf("%s has %+v", name, r)
				}
				all = append(all, d.IDs...)
			}
		}
		return all, nil
	}
	return nil, errors.New("there is no pod " + name)
}

// has waits until a pod has that many devices, and returns them.
func (n *node) has(t *testing.T, name string, want int) (all []string) {
	t.Helper()
	testutil.Eventually(t, func() (err error) {
		if all, err = n.devices(t.Context(), name); err == nil && len(all) != want {
			err = fmt.Errorf("%s has the devices %v", name, all)
		}
		return err
	})
	return all
}

// same checks that a pod has the same devices, and that each of them has only this pod.
func (n *node) same(t *testing.T, name string, want []string) {
	t.Helper()
	if got, err := n.devices(t.Context(), name); err != nil || !slices.Equal(got, want) {
		t.Errorf("%s has the devices %v, %v, want %v", name, got, err, want)
	}
	for _, device := range want {
		found, err := n.Client.Lookup(t.Context(), client.LookupQuery{Device: resource + ":" + device})
		if err != nil || len(found.Pods) != 1 || found.Pods[0].Name != name+"-node1" || found.Pods[0].Container.Name != "main" || found.Pods[0].Container.ID == "" {
			t.Errorf("%s: got %+v, %v", device, found, err)
		}
	}
	n.streamed(t, name, want)
}

// streamed waits until the stream of containers has the devices of a pod.
func (n *node) streamed(t *testing.T, name string, want []string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		list, err := n.Client.ListContainers(t.Context(), client.ContainerOptions{FieldSelector: "metadata.name=" + name + "-node1"})
		if err != nil {
			return err
		}
		for i := range list.Containers {
			c := &list.Containers[i]
			if c.Name != "main" || c.State != "running" || c.Resources == nil {
				continue
			}
			if got := c.Resources.Devices; len(got) == 1 && slices.Equal(got[0].IDs, want) {
				return nil
			}
		}
		return fmt.Errorf("the containers of %s are %+v, want the devices %v", name, list.Containers, want)
	})
}

// free waits until no pod has a device.
func (n *node) free(t *testing.T, device string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		found, err := n.Client.Lookup(t.Context(), client.LookupQuery{Device: resource + ":" + device})
		if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Code == 404 {
			return nil
		}
		return fmt.Errorf("%s: got %+v, %w", device, found, err)
	})
}

// shown checks what podconfigctl shows of a device of the pod train.
func (n *node) shown(t *testing.T, device string) {
	t.Helper()
	for args, want := range map[string]string{
		"lookup device:" + resource + ":" + device:                               "NAMESPACE POD CONTAINER STATE SOURCE default train-node1 main running file",
		"get pods train --devices -o jsonpath={.resources[0].devices[0].ids[0]}": device,
	} {
		out, err := exec.CommandContext(t.Context(), e2e.Ctl, append(strings.Fields(args), "--socket", n.Socket)...).Output()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", args, got, err, want)
		}
	}
}
