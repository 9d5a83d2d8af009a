package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

// ErrNotRunning is returned by Reload after Run has returned.
var ErrNotRunning = errors.New("the daemon is not running")

// Reloaded is the result of Reload: fields, by their paths in the file, in the order of the file.
type Reloaded struct {
	// Changed are the fields that changed and are in effect.
	Changed []string
	// NeedRestart are the fields that differ from what the daemon runs with and take effect
	// only at a start.
	NeedRestart []string
}

// Reload changes the configuration while Run runs. Fields that can't change while it runs stay
// as they are, and are listed. If the configuration is not valid, nothing changes, and the
// error lists every fault. Before Run has started, Reload waits for it. Reloads run one after
// the other. If the context ends first, the reload completes nevertheless.
//
// A source that is no longer configured is removed with its pods. A source whose configuration
// changed keeps its pods until its first set with the new one. A new source is not seen before
// its first set. Until then, the daemon is not ready, and there is no HOUSEKEEPING.
func (d *Daemon) Reload(ctx context.Context, c *Config) (Reloaded, error) {
	to := *c
	to.PodConfigdConfiguration = *c.DeepCopy()
	if err := to.Validate(); err != nil {
		return Reloaded{}, err
	}
	var result Reloaded
	err := d.sources.call(ctx, func(ctx context.Context) error {
		next, reloaded := d.current.merged(&to)
		if len(reloaded.NeedRestart) > 0 { // for example the only source left
			if err := next.Validate(); err != nil {
				return fmt.Errorf("the changes need a restart, because they depend on %s: %w", strings.Join(reloaded.NeedRestart, ", "), err)
			}
		}
		for _, p := range d.parts {
			if p.apply == nil {
				continue
			}
			if err := p.apply(ctx, &next); err != nil {
				return err
			}
		}
		d.current, result = next, reloaded
		d.onDisk.differ(reloaded.NeedRestart)
		return nil
	})
	if err != nil {
		return Reloaded{}, err
	}
	return result, nil
}

// Refused shows in the status that a changed configuration could not be loaded or is not valid; nil takes that back.
func (d *Daemon) Refused(err error) {
	d.onDisk.refuse(err)
}

// onDisk is how the configuration differs from what the daemon runs with.
type onDisk struct {
	mu          sync.Mutex
	needRestart []string
	refused     error
}

func (c *onDisk) differ(needRestart []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.needRestart = needRestart
}

func (c *onDisk) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = err
}

// problems returns the differences, for people.
func (c *onDisk) problems() (problems []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.needRestart) > 0 {
		problems = append(problems, "changes of the configuration need a restart: "+strings.Join(c.needRestart, ", "))
	}
	if c.refused != nil {
		line, _, _ := strings.Cut(c.refused.Error(), "\n")
		problems = append(problems, "the changed configuration can't be used: "+line)
	}
	return problems
}

// merged returns the configuration with the changes to c that can be made now.
func (c *Config) merged(to *Config) (next Config, reloaded Reloaded) {
	next = *c
	for i := range v1alpha1.Options {
		o := &v1alpha1.Options[i]
		switch {
		case o.IsOfLog() || o.Same(&c.PodConfigdConfiguration, &to.PodConfigdConfiguration):
		case o.Reload == "":
			reloaded.NeedRestart = append(reloaded.NeedRestart, o.Path)
		default:
			reloaded.Changed = append(reloaded.Changed, o.Path)
			o.Copy(&next.PodConfigdConfiguration, &to.PodConfigdConfiguration)
		}
	}
	return next, reloaded
}
