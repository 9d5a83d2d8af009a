package syncloop

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// kubelet is a KubeletStatuses whose statuses the test sets.
type kubelet struct {
	notices  chan struct{}
	changed  []types.UID
	statuses map[types.UID]*v1.PodStatus
	live     bool
	disabled bool
}

func newKubelet() *kubelet {
	return &kubelet{notices: make(chan struct{}), statuses: make(map[types.UID]*v1.PodStatus), live: true}
}

func (k *kubelet) Enabled() bool { return !k.disabled }

func (k *kubelet) Watch() <-chan struct{} { return k.notices }

func (k *kubelet) Changed() []types.UID {
	changed := k.changed
	k.changed = nil
	return changed
}

func (k *kubelet) Status(uid types.UID) (status *v1.PodStatus, live bool) {
	return k.statuses[uid], k.live
}

// gives makes the kubelet give a pod a status.
func (k *kubelet) gives(uid types.UID, status *v1.PodStatus) {
	k.statuses[uid] = status
	k.change(uid)
}

// leaves makes the kubelet go away, and come back.
func (k *kubelet) leaves(live bool, uids ...types.UID) {
	k.live = live
	k.change(uids...)
}

func (k *kubelet) change(uids ...types.UID) {
	k.changed = append(k.changed, uids...)
	k.notices <- struct{}{}
	synctest.Wait()
}

// statusOf is a status that only a kubelet gives: a probe has succeeded.
func statusOf(id string, phase v1.PodPhase) *v1.PodStatus {
	return &v1.PodStatus{Phase: phase, HostIP: "198.51.100.1", StartTime: new(metav1.Unix(1, 0)), ContainerStatuses: []v1.ContainerStatus{{
		Name: "c", ContainerID: "containerd://" + id, Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}}
}

// probed returns a static pod with a probe.
func probed(name string) *v1.Pod {
	pod := static(name)
	pod.Spec.Containers[0].ReadinessProbe = new(v1.Probe)
	return pod
}

// by returns by whom the status of a pod of the file source is.
func (h *statusHarness) by(t *testing.T, source string) StatusBy {
	t.Helper()
	by, err := h.loop.StatusBy(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	return StatusBy(by[source])
}

// The status of the kubelet replaces ours. While the kubelet is away, it stands as long as the runtime agrees, and then
// goes on by our own rules.
func TestStatusOfTheKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		h := runStatus(t, func(opts *Options, _ *statusHarness) { opts.Status.Kubelet = k })
		h.add("file", probed("a"))
		h.running("a", "1")
		h.expect(t, "ADD a:Pending", "RECONCILE status a:Running on 192.0.2.1 containerd://1")
		if by := h.by(t, "file"); by != ByRuntime {
			t.Error(by)
		}
		k.gives("a", statusOf("1", v1.PodRunning))
		k.gives("unknown here", statusOf("1", v1.PodRunning))
		h.expect(t, "RECONCILE status a:Running on 198.51.100.1 containerd://1")
		h.running("a", "2") // the kubelet says so too, in a moment
		h.expect(t)
		k.gives("a", statusOf("2", v1.PodRunning))
		h.expect(t, "RECONCILE status a:Running on 198.51.100.1 containerd://2")
		if by := h.by(t, "file"); by != ByKubelet {
			t.Error(by)
		}
		k.leaves(false, "a")
		h.running("a", "2")
		h.expect(t)
		if by := h.by(t, "file"); by != ByKubeletBefore {
			t.Error(by)
		}
		h.running("a", "3")
		h.expect(t, "RECONCILE status a:Running on 192.0.2.1 containerd://3")
		if by := h.by(t, "file"); by != ByRuntime {
			t.Error(by)
		}
		k.leaves(true, "a")
		h.expect(t, "RECONCILE status a:Running on 198.51.100.1 containerd://2") // until it says more
		k.gives("a", statusOf("3", v1.PodRunning))
		h.expect(t, "RECONCILE status a:Running on 198.51.100.1 containerd://3")
		h.stop(t)
	})
}

// What the kubelet said before a restart of podconfigd stands until it answers, if the runtime agrees. Our own status
// does not: with other options, it is another one.
func TestRestoredStatusOfTheKubelet(t *testing.T) {
	for name, test := range map[string]struct {
		last     *v1.PodStatus
		disabled bool
		want     []string
	}{
		"of the kubelet":                  {statusOf("1", v1.PodRunning), false, nil},
		"of a kubelet without a Pods API": {statusOf("1", v1.PodRunning), true, []string{"RECONCILE status a:Running on 192.0.2.1 containerd://1"}},
		"ours":                            {&v1.PodStatus{Phase: v1.PodPending, HostIP: "198.51.100.1"}, false, []string{"RECONCILE status a:Running on 192.0.2.1 containerd://1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKubelet()
				k.live, k.disabled = false, test.disabled
				h := runStatus(t, func(opts *Options, _ *statusHarness) {
					opts.Status.Kubelet = k
					opts.Restored = []config.PodUpdate{{
						Op: config.ADD, Source: "file", Pods: []*v1.Pod{probed("a")}, Statuses: []*v1.PodStatus{test.last},
					}}
				})
				synctest.Wait()
				h.calls = nil
				h.running("a", "1")
				h.expect(t, test.want...)
				h.stop(t)
			})
		})
	}
}

// A reload that turns the kubelet off leaves none of its statuses, with or without a runtime, also those from before a restart.
func TestTheKubeletIsTurnedOff(t *testing.T) {
	for name, test := range map[string]struct {
		runtime, restored bool
		want              string
		by                StatusBy
	}{
		"with a runtime":                      {true, false, "RECONCILE status a:Running on 192.0.2.1 containerd://1", ByRuntime},
		"with a runtime, from before a start": {true, true, "RECONCILE status a:Running on 192.0.2.1 containerd://1", ByRuntime},
		"without one":                         {false, false, "RECONCILE status a:Pending", BySource},
		"without one, from before a restart":  {false, true, "RECONCILE status a:Pending", BySource},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKubelet()
				k.live = !test.restored
				h := runStatus(t, func(opts *Options, _ *statusHarness) {
					opts.Status.Kubelet = k
					if !test.runtime {
						opts.Status.Records = nil
					}
					if test.restored {
						opts.Restored = []config.PodUpdate{{
							Op: config.ADD, Source: "file", Pods: []*v1.Pod{probed("a")}, Statuses: []*v1.PodStatus{statusOf("1", v1.PodRunning)},
						}}
					}
				})
				if !test.restored {
					h.add("file", probed("a"))
				}
				if test.runtime {
					h.running("a", "1")
				}
				var changed []types.UID
				if !test.restored {
					k.gives("a", statusOf("1", v1.PodRunning))
					changed = []types.UID{"a"}
				}
				synctest.Wait()
				h.calls = nil
				k.disabled = true
				delete(k.statuses, "a")
				k.leaves(false, changed...)
				h.expect(t, test.want)
				if by := h.by(t, "file"); by != test.by {
					t.Error(by)
				}
				h.stop(t)
			})
		})
	}
}

// A pod of the apiserver has what the kubelet says before the apiserver has it, with what others wrote there. While the
// kubelet is away, what is newer in the apiserver counts.
func TestStatusOfTheKubeletOfAPIPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubelet()
		h := runStatus(t, func(opts *Options, _ *statusHarness) { opts.Status.Kubelet = k })
		pod := static("a")
		pod.Annotations = nil
		pod.Status = *statusOf("1", v1.PodRunning)
		pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/gate", Status: v1.ConditionTrue}}
		h.add("api", pod)
		theirs := statusOf("2", v1.PodRunning)
		theirs.ContainerStatuses[0].RestartCount = 1
		k.gives("a", theirs)
		h.expect(t, "ADD a:Running on 198.51.100.1 containerd://1", "RECONCILE status a:Running on 198.51.100.1 containerd://2")
		shown := h.loop.pods.podOf("api", "a").status
		if len(shown.Conditions) != 1 || len(theirs.Conditions) != 0 {
			t.Errorf("%+v, %+v", shown.Conditions, theirs.Conditions)
		}
		k.leaves(false, "a")
		h.expect(t)
		newer := pod.DeepCopy()
		newer.Status = *statusOf("3", v1.PodFailed)
		newer.Status.ContainerStatuses[0].RestartCount = 2
		h.update(config.PodUpdate{Op: config.RECONCILE, Source: "api", Pods: []*v1.Pod{newer}})
		h.expect(t, "RECONCILE a:Failed on 198.51.100.1 containerd://3")
		if by := h.by(t, "api"); by != BySource {
			t.Error(by)
		}
		h.stop(t)
	})
}
