package syncloop

import (
	"fmt"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// A pod that was restored keeps its last status until the runtime answers. A runtime that does
// not have the pod makes no event for it.
func TestRestoredStatusStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := metav1.Now()
		last := v1.PodStatus{Phase: v1.PodRunning, StartTime: &now, HostIP: "192.0.2.1", HostIPs: []v1.HostIP{{IP: "192.0.2.1"}}, ContainerStatuses: []v1.ContainerStatus{{
			Name: "c", ContainerID: "containerd://0", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}}}
		a := static("a")
		h := runStatus(t, func(opts *Options, _ *statusHarness) {
			opts.Restored = []config.PodUpdate{{
				Op: config.ADD, Source: "file", Pods: []*v1.Pod{a}, Files: []*config.File{{Path: "a.yaml"}}, Statuses: []*v1.PodStatus{&last},
			}}
		})
		pass(10 * housekeepingPeriod)
		h.expect(t)
		h.events.has()
		pass(2 * housekeepingPeriod)
		h.expect(t) // the recorder limits how often a status changes
		if got := fmt.Sprint(h.readings.requested); got != "[a]" {
			t.Errorf("requested %s", got)
		}
		h.readings.channel <- podstatus.Reading{UID: "a", Record: new(podstatus.Record)}
		synctest.Wait()
		if len(h.calls) != 1 || h.calls[0] == "RECONCILE status a:Running on 192.0.2.1 containerd://0" {
			t.Errorf("after a list without the pod: %q", h.calls)
		}
		h.stop(t)
	})
}

// A status that was restored goes away if nothing keeps it up to date any more: the pods of its
// source get no status, or there is no runtime.
func TestRestoredStatusGoes(t *testing.T) {
	now := metav1.Now()
	last := v1.PodStatus{Phase: v1.PodRunning, StartTime: &now, HostIP: "192.0.2.1", ContainerStatuses: []v1.ContainerStatus{{
		Name: "c", ContainerID: "containerd://0", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}}
	for _, test := range []struct {
		name   string
		change func(*StatusOptions)
		want   []string
	}{
		{"a runtime", func(*StatusOptions) {}, nil},
		{"no runtime", func(s *StatusOptions) { s.Records = nil }, []string{"RECONCILE status a:Pending"}},
		{"turned off", func(s *StatusOptions) { *s = StatusOptions{} }, []string{"RECONCILE status a:Pending"}},
		{"not of this source", func(s *StatusOptions) { s.Sources = []string{"http"} }, []string{"RECONCILE status a:Pending"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runStatus(t, func(opts *Options, _ *statusHarness) {
					test.change(&opts.Status)
					opts.Restored = []config.PodUpdate{{
						Op: config.ADD, Source: "file", Pods: []*v1.Pod{static("a")}, Files: []*config.File{{Path: "a.yaml"}}, Statuses: []*v1.PodStatus{&last},
					}}
				})
				pass(2 * housekeepingPeriod)
				h.expect(t, test.want...)
				h.stop(t)
			})
		})
	}
}
