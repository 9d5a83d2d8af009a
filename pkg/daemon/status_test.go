package daemon

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	prometheustest "github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/test/testutil/recovered"
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
		d.podConfig.LimitRemovals(limit, nil)
		d.podConfig.Restore("file", pods)
		registerHeld((&runner{registry: registry}).metricsOf("file"), d.podConfig, "file")
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
		if err := d.release(t.Context(), "file", nil); err != nil {
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
	const reason = `a set that would remove 9 of 11 pods is held; to apply it, run "podconfigctl release file --removes=9"`
	for before, want := range map[string]string{"": reason, "opening /m: no such file": reason + "; opening /m: no such file"} {
		t.Run(cmp.Or(before, "empty"), func(t *testing.T) {
			status := v1alpha1.SourceStatus{Name: "file", Degraded: before != "", LastError: before}
			showHeld(&status, held)
			if !status.Degraded || status.LastError != want || status.DegradedSince == nil || status.Held.Removes != 9 || status.Held.Pods != 11 {
				t.Errorf("%q: %+v", before, status)
			}
		})
	}
	held.Until = time.Date(2026, 11, 22, 1, 2, 3, 0, time.Local)
	status := v1alpha1.SourceStatus{Name: "file"}
	showHeld(&status, held)
	if want := strings.Replace(reason, "held;", "held until 01:02:03;", 1); status.LastError != want || !status.Held.Until.Equal(held.Until) {
		t.Errorf("within the limit: %+v", status)
	}
}

// The daemon is not ready while a source is only restored. The error tells such sources from
// those that have no pods yet.
func TestReadinessNamesTheSources(t *testing.T) {
	d := &Daemon{podConfig: config.NewPodConfig(), journal: journal.New(journal.Options{
		Sources: []string{"api", "file", "http"}, Recovered: recovered.Of(map[string][]*v1.Pod{"api": {{}}}),
	})}
	for _, step := range []struct{ source, want string }{
		{"file", "waiting for sources: api (restored: serving its last known pods), http"},
		{"http", "waiting for sources: api (restored: serving its last known pods)"},
		{"api", ""},
	} {
		d.journal.Append(config.PodUpdate{Op: config.ADD, Source: step.source})
		got := ""
		if err := d.checkSources(); err != nil {
			got = err.Error()
		}
		if got != step.want {
			t.Errorf("after %s: got %q, want %q", step.source, got, step.want)
		}
	}
}

// The status is ready if /readyz succeeds, also if another check than that of the sources fails.
func TestTheStatusIsReadyAsReadyz(t *testing.T) {
	c := Config{}
	c.StaticPodPath, c.Socket, c.HostnameOverride = t.TempDir(), new(filepath.Join(t.TempDir(), "s")), "node1"
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var state error
	d.parts = append(d.parts, part{ready: []server.Check{{Name: "state", Check: func() error { return state }}}})
	expect := func(want bool) {
		t.Helper()
		if got := d.status().Ready; got != want {
			t.Errorf("ready is %t, want %t", got, want)
		}
	}
	expect(false)
	d.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file"})
	expect(true)
	state = errors.New("updates are not stored")
	expect(false)
	state = nil
	expect(true)
}

// A runtime that does not answer is in the status, and does not end the daemon.
func TestTheWatchdogDoesNotDependOnTheRuntime(t *testing.T) {
	c := Config{}
	c.StaticPodPath, c.Socket, c.HostnameOverride = t.TempDir(), new(filepath.Join(t.TempDir(), "s")), "node1"
	c.ContainerRuntimeEndpoint, c.NotifyServiceManager = "unix:///no/such/socket", true
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "10000000")
	t.Setenv("WATCHDOG_PID", "")
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.runtime.close()
	d.runtime.generator = pleg.New(pleg.Options{RelistThreshold: time.Nanosecond, Registerer: prometheus.NewRegistry()})
	if err := d.notifier.Live(); err != nil {
		t.Errorf("the watchdog sees %v", err)
	}
	if status := d.notifier.Status(); !strings.Contains(status, "pleg was last seen active") {
		t.Errorf("the status is %q", status)
	}
}

// After the clock was set back, the live attempt has an earlier creation time than the dead one.
func TestTheNewestAttempt(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	p := runtimePod(&pleg.Pod{Containers: []pleg.Container{
		{ID: "c2", Name: "c", Attempt: 2, State: pleg.StateRunning, CreatedAt: at(1)},
		{ID: "s1", Sandbox: true, Attempt: 1, State: pleg.StateRunning, CreatedAt: at(1)},
		{ID: "s0", Sandbox: true, State: pleg.StateExited, CreatedAt: at(50)},
		{ID: "c1", Name: "c", Attempt: 1, State: pleg.StateExited, CreatedAt: at(60)},
	}})
	if len(p.Containers) != 1 || p.Containers[0].ID != "c2" || p.Ready != 1 || !p.CreatedAt.Equal(at(1)) {
		t.Errorf("got %+v", p)
	}
}
