package podsapi

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestElements: elements that are small on the wire, and take hundreds of MiB decoded, are not decoded.
func TestElements(t *testing.T) {
	const containerStatuses, volumeMounts = 8, 12
	mounts := protowire.AppendTag(nil, volumeMounts, protowire.BytesType)
	mounts = bytes.Repeat(protowire.AppendBytes(mounts, nil), maxInner)
	status := protowire.AppendBytes(protowire.AppendTag(nil, containerStatuses, protowire.BytesType), mounts)
	if !(&pod{raw: status}).isLarge() {
		t.Errorf("a status of %d KiB with %d mounts is decoded", len(status)>>10, maxInner)
	}
	many := v1.PodStatus{ContainerStatuses: make([]v1.ContainerStatus, 200)}
	for i := range many.ContainerStatuses {
		many.ContainerStatuses[i].VolumeMounts = make([]v1.VolumeMountStatus, 50)
	}
	raw, err := many.Marshal()
	if err != nil || (&pod{raw: raw}).isLarge() {
		t.Errorf("a status with 200 containers is not decoded: %v", err)
	}
}

// TestSize: the size counts everything that is kept.
func TestSize(t *testing.T) {
	s := newStatuses()
	for _, message := range []string{"one", strings.Repeat("m", 1000), "three"} {
		p := encoded(t, "a", message, int32(len(s.pods)))
		if _, err := s.listed(p, s.now(), s.begin()); err != nil {
			t.Fatal(err)
		}
		least := entrySize + len("uid-of-a") + len("default") + len("a") + len(message)
		if s.size < least || s.size > least+2<<10 || s.bounded() != nil {
			t.Errorf("%d bytes, want at least %d", s.size, least)
		}
	}
	s.limit = s.size - 1
	if err := s.bounded(); err == nil || s.size != 0 || s.message() != "none" || len(s.take()) != 1 {
		t.Errorf("%v, %d bytes, %s", err, s.size, s.message())
	}
}

// TestRefused: after a kubelet gave too much, none of its statuses is used before a complete list. Each attempt costs as
// much as the last one, so there is a wait between them.
func TestRefused(t *testing.T) {
	c := New(Options{Interval: time.Hour})
	s := c.statuses
	give := func() {
		t.Helper()
		if _, err := s.listed(encoded(t, "a", "one", 1), s.now(), s.begin()); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(want bool) {
		t.Helper()
		if status, _ := c.Status("uid-of-a"); status != nil != want {
			t.Errorf("the status is used: %t, want %t", !want, want)
		}
	}
	give()
	c.setConnected(t.Context())
	shown(true)
	s.limit = 1
	err := s.bounded()
	give()
	shown(false)
	if wait := pause(firstRetry, 0, err); wait != excessRetry {
		t.Errorf("it waits %v", wait)
	}
	c.setConnected(t.Context())
	shown(true)
	if wait := pause(lastRetry, time.Second, errSilent); wait != lastRetry {
		t.Errorf("it waits %v", wait)
	}
	if wait := pause(lastRetry, steady, errSilent); wait != 0 {
		t.Errorf("it waits %v", wait)
	}
}

// TestSizeOf counts what is behind the pointers of a status.
func TestSizeOf(t *testing.T) {
	const page = 1000
	for name, test := range map[string]struct {
		status v1.PodStatus
		least  int
	}{
		"text":      {v1.PodStatus{Message: strings.Repeat("m", page)}, page},
		"list":      {v1.PodStatus{Conditions: make([]v1.PodCondition, page)}, page * 100},
		"inner":     {v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{VolumeMounts: make([]v1.VolumeMountStatus, page)}}}, page * 50},
		"pointer":   {v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Message: strings.Repeat("m", page)}}}}}, page},
		"map":       {v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{AllocatedResources: v1.ResourceList{v1.ResourceName(strings.Repeat("m", page)): {}}}}}, page},
		"only_time": {v1.PodStatus{StartTime: new(metav1.Now())}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sizeOf(&test.status); got < test.least || got > 2*test.least+1500 {
				t.Errorf("%d bytes, want at least %d", got, test.least)
			}
		})
	}
	if got := sizeOf(nil); got != 0 {
		t.Errorf("%d bytes without a status", got)
	}
}
