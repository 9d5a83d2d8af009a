package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// settled waits until the kubelet and the runtime agree: each pod has one sandbox, and its containers run and no others.
// A phase is not enough: a pod whose containers start again is Running.
func (w *world) settled(t *testing.T) (theirs map[string]*v1.Pod) {
	t.Helper()
	testutil.Eventually(t, func() (err error) {
		theirs, err = w.runs(t)
		return err
	})
	return theirs
}

// runs returns the pods of the kubelet. It is an error if the runtime does not run them as the kubelet says.
func (w *world) runs(t *testing.T) (map[string]*v1.Pod, error) {
	t.Helper()
	theirs, err := w.kubelet.Pods(t)
	if err != nil {
		return nil, err
	}
	if len(theirs) != len(pods) {
		return nil, fmt.Errorf("the kubelet has %d pods", len(theirs))
	}
	if err := w.sandboxes(t, theirs); err != nil {
		return nil, err
	}
	var want, got []string
	for _, pod := range theirs {
		if err := notResized(pod); err != nil {
			return nil, err
		}
		ids, err := containers(pod)
		if err != nil {
			return nil, err
		}
		want = append(want, ids...)
	}
	for _, c := range w.running(t) {
		got = append(got, c.GetId())
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return nil, fmt.Errorf("the containers %v run, and the kubelet has %v", got, want)
	}
	return theirs, nil
}

// notResized returns an error while the kubelet has not given a pod all of its own resources. A kubelet that comes back
// remembers the pod, and not these resources. It gives them to the pod a while after the start, and starts it again.
func notResized(pod *v1.Pod) error {
	if now := pod.Status.Resources; pod.Spec.Resources != nil && now != nil && len(now.Limits) == 0 {
		return fmt.Errorf("%s has no resources yet", pod.Name)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
			return fmt.Errorf("%s is resized: %s %s", pod.Name, c.Type, c.Message)
		}
	}
	return nil
}

// sandboxes checks that each pod has one sandbox that is ready, and that there are no others.
func (w *world) sandboxes(t *testing.T, theirs map[string]*v1.Pod) error {
	t.Helper()
	list, err := w.runtime.CRI.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	ready := make(map[string]int)
	for _, s := range list.GetItems() {
		if s.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
			continue
		}
		name := s.GetMetadata().GetName()
		if pod := theirs[name]; pod == nil || string(pod.UID) != s.GetMetadata().GetUid() {
			return fmt.Errorf("another sandbox of %s is still there", name)
		}
		ready[name]++
	}
	for name := range theirs {
		if ready[name] != 1 {
			return fmt.Errorf("%s has %d sandboxes", name, ready[name])
		}
	}
	return nil
}

// containers returns the IDs of the containers of a pod. It is an error if one of them does not run.
func containers(pod *v1.Pod) (ids []string, err error) {
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if s.State.Running == nil {
			return nil, fmt.Errorf("container %s of %s does not run: %+v", s.Name, pod.Name, s.State)
		}
		ids = append(ids, strings.TrimPrefix(s.ContainerID, "containerd://"))
	}
	if len(ids) != len(pod.Spec.Containers) || pod.Status.Phase != v1.PodRunning {
		return nil, fmt.Errorf("%s is %s with %d containers", pod.Name, pod.Status.Phase, len(ids))
	}
	return ids, nil
}

// running returns the containers that run.
func (w *world) running(t *testing.T) []*runtimeapi.Container {
	t.Helper()
	list, err := w.runtime.CRI.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.GetContainers()
}
