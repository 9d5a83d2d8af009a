package daemon

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	prometheustest "github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/testutil/recovered"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// A source whose first set is held is not ready, and degraded. Its restored pods stay.
func TestTheFirstSetIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := []*v1.Pod{{}, {}}
		pods[0].Name, pods[0].UID, pods[1].Name, pods[1].UID = "a", "a", "b", "b"
		d := &Daemon{
			podConfig: config.NewPodConfig(), runtime: &runtime{}, state: &state{}, sources: new(runner),
			kubelet: kubelet.New(kubelet.Options{Decoder: manifest.NewDecoder("node1")}),
			journal: journal.New(journal.Options{Sources: []string{"file"}, Recovered: recovered.Of(map[string][]*v1.Pod{"file": pods})}),
		}
		limit, err := config.ParseRemovalLimit("50%")
		if err != nil {
			t.Fatal(err)
		}
		registry := prometheus.NewRegistry()
		d.podConfig.LimitRemovals(limit)
		d.podConfig.Restore("file", pods)
		registerHeld(newScope(registry, "file"), d.podConfig, "file")
		sets := d.podConfig.Channel("file")
		go func() { _ = d.podConfig.Run(t.Context()) }()
		sets <- config.SourceSet{}
		synctest.Wait()

		const want = "waiting for sources: file (restored: serving its last known pods; its first set would remove 2 of 2 pods and is held)"
		if err := d.checkSources(); err == nil || err.Error() != want {
			t.Errorf("readiness: %v, want %s", err, want)
		}
		status := d.status().Sources[0]
		if status.Held == nil || status.Held.Removes != 2 || status.Held.Pods != 2 || !status.Degraded || status.DegradedSince == nil || !status.Restored || status.Pods != 2 {
			t.Errorf("status: %+v, %+v", status, status.Held)
		}
		if err := prometheustest.GatherAndCompare(registry, strings.NewReader(`
# HELP podconfigd_held_removals How many pods the held set of the source would remove; 0 if no set is held.
# TYPE podconfigd_held_removals gauge
podconfigd_held_removals{source="file"} 2
`)); err != nil {
			t.Error(err)
		}
		if err := d.podConfig.Release(t.Context(), "file", nil); err != nil {
			t.Error(err)
		}
		if status := d.status().Sources[0]; status.Held != nil || status.Degraded {
			t.Errorf("status after the release: %+v", status)
		}
	})
}

// The status of a source that is both degraded and held has both reasons.
func TestAHeldSourceIsDegraded(t *testing.T) {
	held := config.HeldSet{Removes: 9, Pods: 11}
	const reason = `a set that would remove 9 of 11 pods is held; to apply it, run "podconfigd release file --removes=9"`
	for before, want := range map[string]string{"": reason, "opening /m: no such file": reason + "; opening /m: no such file"} {
		status := v1alpha1.SourceStatus{Name: "file", Degraded: before != "", LastError: before}
		showHeld(&status, held)
		if !status.Degraded || status.LastError != want || status.DegradedSince == nil || status.Held.Removes != 9 || status.Held.Pods != 11 {
			t.Errorf("%q: %+v", before, status)
		}
	}
	held.Until = time.Date(2026, 11, 22, 1, 2, 3, 0, time.Local)
	status := v1alpha1.SourceStatus{Name: "file"}
	showHeld(&status, held)
	if want := strings.Replace(reason, "held;", "held until 01:02:03;", 1); status.LastError != want || !status.Held.Until.Equal(held.Until) {
		t.Errorf("within the limit: %+v", status)
	}
}
