package containers

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// While the first handles are read, the kubelet lists the devices.
func TestDevicesAtTheStartOfARecording(t *testing.T) {
	inWorld(t, func(w *world) {
		w.slow = time.Second
		w.pids["web-app"] = 7
		w.set("web/app running")
		s := w.watch(nil, WatchOptions{})
		synctest.Wait()
		w.devices["app"] = &v1alpha1.ContainerResources{Devices: []v1alpha1.Devices{{Resource: "gpu", IDs: []string{"0"}}}}
		w.stream.Listed()
		<-time.After(time.Minute)
		s.expect("ADD - web/app running 7 [{gpu [0] []}]; BOOKMARK complete")
	})
}

// While the first handles are read, the pod of a container comes, and so many other changes that the journal no longer has it.
func TestLostChangesOfPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.slow = time.Second
		w.set("web/app running")
		s := w.watch(nil, WatchOptions{})
		synctest.Wait()
		w.deliver(config.ADD, "api", pod("web"))
		for i := range 10000 { // more than journal.DefaultMaxUpdates
			w.journal.Append(config.PodUpdate{Op: config.UPDATE, Source: "api", Pods: []*v1.Pod{pod(fmt.Sprint("other=", i))}})
		}
		<-time.After(time.Minute)
		s.expect("ADD api web/app running; BOOKMARK complete")
	})
}

// To read the processes can take longer than a list waits for the runtime.
func TestListDuringALongReading(t *testing.T) {
	inWorld(t, func(w *world) {
		w.slow = time.Minute
		w.pids["web-app"] = 7
		w.set("web/app running")
		if list, err := w.stream.List(w.t.Context(), nil, WatchOptions{}); err != nil || len(list.Containers) != 1 || list.Containers[0].PID != 7 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
