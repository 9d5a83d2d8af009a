package podfields

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRestarts(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for name, test := range map[string]struct {
		finished time.Time
		want     string
	}{
		"a minute ago":                 {now.Add(-time.Minute), "1 (60s ago)"},
		"the runtime does not tell it": {time.Unix(0, 0), "1"},
		"no time":                      {time.Time{}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			last := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(test.finished)}}
			pod := &v1.Pod{Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{RestartCount: 1, LastTerminationState: last}}}}
			if got := Cells(pod, now)[3]; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
