package daemon

import (
	"fmt"
	"slices"
	"strings"
)

// checkSources returns an error with the sources that have not been seen, or nil.
func (d *Daemon) checkSources() error {
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

// statusLine returns the number of pods, and why the daemon is not ready or not live, for the service manager.
func (d *Daemon) statusLine() string {
	parts := []string{fmt.Sprintf("Serving %d pods", d.journal.Status().Pods)}
	live, ready := d.checks()
	for _, c := range slices.Concat(ready, live) {
		if err := c.Check(); err != nil {
			parts = append(parts, err.Error())
		}
	}
	return strings.Join(parts, "; ")
}
