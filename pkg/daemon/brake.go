package daemon

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

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
		held.Removes, held.Pods, until, config.ReleaseCommand(status.Name, held.Removes))
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
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "podconfigd", Name: "held_removals",
		Help: "How many pods the held set of the source would remove; 0 if no set is held.",
	}, func() float64 {
		held, _ := c.Held(source)
		return float64(held.Removes)
	})
}
