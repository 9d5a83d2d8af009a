package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/mend"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// loopThreshold is the time without an iteration of the sync loop after which the daemon
// is not live. The tickers of the loop start an iteration every second.
const loopThreshold = 30 * time.Second

// live returns the checks of /livez and of the watchdog: what a restart can mend. The loop takes what the sources deliver, and
// gives it to the journal, so it stops if one of them does. What is optional or outside of the daemon, such as the container
// runtime, is not among them: it is in the status and the metrics.
func (d *Daemon) live() []server.Check {
	return []server.Check{{Name: "syncloop", Check: d.checkLoop}}
}

// faults returns why the daemon itself is not live, or nil.
func (d *Daemon) faults() error {
	for _, c := range d.live() {
		if err := c.Check(); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

func (d *Daemon) checkLoop() error {
	last := d.loop.LastActive()
	if last.IsZero() {
		last = d.started
	}
	if idle := time.Since(last); idle > d.loopThreshold {
		return fmt.Errorf("the sync loop was last active %v ago: the threshold is %v", idle.Round(time.Second), d.loopThreshold)
	}
	return nil
}

// status returns the status of the journal, completed by the daemon, the sources and the
// runtime.
func (d *Daemon) status() v1alpha1.Status {
	status := d.journal.Status()
	status.NodeName, status.StartTime = string(d.node), d.started
	status.Ready = !slices.ContainsFunc(d.ready(), func(c server.Check) bool { return c.Check() != nil })
	for i := range status.Sources {
		merged := &status.Sources[i]
		if source, ok := d.sources.status(merged.Name); ok {
			source.Seen, source.Restored, source.Pods = merged.Seen, merged.Restored, merged.Pods
			*merged = source
		}
		if held, ok := d.podConfig.Held(merged.Name); ok {
			showHeld(merged, held)
		}
	}
	status.Problems = append(status.Problems, d.onDisk.problems()...)
	for _, p := range d.parts {
		if p.status != nil {
			p.status(&status)
		}
	}
	return status
}

// ready returns the checks of /readyz, in the order of the parts.
func (d *Daemon) ready() (checks []server.Check) {
	for _, p := range d.parts {
		checks = append(checks, p.ready...)
	}
	return checks
}

// checkSources returns an error with the sources that have not been seen, or nil.
func (d *Daemon) checkSources() error {
	if d.config.waiting != "" {
		return errors.New(d.config.waiting)
	}
	unseen, restored := d.journal.Unseen(), d.journal.Restored()
	if len(unseen) == 0 {
		return nil
	}
	for i, source := range unseen {
		if !slices.Contains(restored, source) {
			continue
		}
		why := "restored: serving its last known pods"
		if held, is := d.podConfig.Held(source); is {
			why += fmt.Sprintf("; its first set would remove %d of %d pods and is held", held.Removes, held.Pods)
		}
		unseen[i] += " (" + why + ")"
	}
	return fmt.Errorf("waiting for sources: %s", strings.Join(unseen, ", "))
}

// statusLine returns the number of pods, and why the daemon is not ready or not live, or lacks the container runtime, for the
// service manager.
func (d *Daemon) statusLine() string {
	parts := []string{fmt.Sprintf("Serving %d pods", d.journal.Status().Pods)}
	checks := slices.Concat(d.ready(), d.live())
	if d.runtime != nil {
		checks = append(checks, server.Check{Check: d.runtime.check})
	}
	for _, c := range checks {
		if err := c.Check(); err != nil {
			parts = append(parts, err.Error())
		}
	}
	return strings.Join(parts, "; ")
}

// removalLimit returns RemovalBrake, which is valid.
func (c *Config) removalLimit() config.RemovalLimit {
	if c.RemovalBrake == nil {
		return config.RemovalLimit{}
	}
	limit, _ := config.ParseRemovalLimit(c.RemovalBrake.String())
	return limit
}

// showHeld adds a held set to the status of its source, which is degraded.
func showHeld(status *v1alpha1.SourceStatus, held config.HeldSet) {
	status.Held = heldSet(held)
	until := ""
	if status.Held.Until != nil {
		until = " until " + held.Until.Local().Format(time.TimeOnly)
	}
	reason := fmt.Sprintf("a set that would remove %d of %d pods is held%s; to apply it, run %q",
		held.Removes, held.Pods, until, mend.ReleaseCommand(status.Name, held.Removes))
	if status.LastError != "" {
		reason += "; " + status.LastError
	}
	status.LastError = reason
	if !status.Degraded || status.DegradedSince == nil || held.Since.Before(*status.DegradedSince) {
		status.Degraded, status.DegradedSince = true, &held.Since
	}
}

func heldSet(held config.HeldSet) *v1alpha1.HeldSet {
	set := &v1alpha1.HeldSet{Removes: held.Removes, Pods: held.Pods, Since: held.Since}
	if !held.Until.IsZero() {
		set.Until = &held.Until
	}
	return set
}

// registerHeld registers the metric of the held set of a source.
func registerHeld(reg prometheus.Registerer, c *config.PodConfig, source string) {
	metric.In(reg, "").GaugeFunc("held_removals", "How many pods the held set of the source would remove; 0 if no set is held.", func() float64 {
		held, _ := c.Held(source)
		return float64(held.Removes)
	})
}

// release merges the held set of a source. Its error is for clients.
func (d *Daemon) release(ctx context.Context, source string, most *int) error {
	return failure(d.podConfig.Release(ctx, source, most))
}

// resync sends a SYNC for the pods with the name. Its error is for clients.
func (d *Daemon) resync(ctx context.Context, namespace, name string) error {
	return failure(d.loop.Resync(ctx, namespace, name))
}

// failure returns the error with the status that clients get, and with what to do. An error without a status means that
// the daemon can't answer now.
func failure(err error) error {
	if more, ok := errors.AsType[*config.RemovesMoreError](err); ok {
		return apistatus.New(http.StatusConflict,
			fmt.Sprintf("%v: look at what is missing, then run %q", more, mend.ReleaseCommand(more.Source, more.Removes)))
	}
	if soon, ok := errors.AsType[*syncloop.TooSoonError](err); ok {
		return apierrors.NewTooManyRequests(soon.Error(), int(math.Ceil(soon.Wait.Seconds())))
	}
	switch {
	case errors.Is(err, config.ErrNoSource):
		return apistatus.New(http.StatusNotFound, err.Error()+`: "podconfigctl status" lists them`)
	case errors.Is(err, config.ErrNotHeld), errors.Is(err, syncloop.ErrNoPod):
		return apistatus.New(http.StatusNotFound, err.Error())
	}
	return err
}
