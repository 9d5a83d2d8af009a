package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"
)

// maxRemovalLimit is the largest RemovalLimit that is a number.
const maxRemovalLimit = 1000000

// RemovalLimit is how many pods of its source one set may remove: a number, or a share of
// the pods that the source has before the set. The zero value is no limit.
type RemovalLimit struct{ limit intstr.IntOrString }

// ParseRemovalLimit returns the limit for a number, such as 5, or a share, such as 50%; no
// limit for an empty text.
func ParseRemovalLimit(text string) (RemovalLimit, error) {
	if text == "" {
		return RemovalLimit{}, nil
	}
	limit, most := intstr.Parse(text), maxRemovalLimit
	if limit.Type == intstr.String {
		most = 99
	}
	if n, err := intstr.GetScaledValueFromIntOrPercent(&limit, 100, false); err != nil || n < 1 || n > most {
		return RemovalLimit{}, fmt.Errorf("%q is not a number or a share of pods: expected 1 to %d, or 1%% to 99%%", text, maxRemovalLimit)
	}
	return RemovalLimit{limit}, nil
}

// String returns the text of the limit; an empty one without a limit.
func (l RemovalLimit) String() string {
	if l == (RemovalLimit{}) {
		return ""
	}
	return l.limit.String()
}

// maxRemovals returns how many pods a set may remove from a source that has the given number of pods. A share is
// rounded down, but not below 1: the removal of one pod is never a mass removal.
func (l RemovalLimit) maxRemovals(pods int) (limit int, limited bool) {
	if l == (RemovalLimit{}) {
		return 0, false
	}
	limit, _ = intstr.GetScaledValueFromIntOrPercent(&l.limit, pods, false) // parsed before
	return max(1, limit), true
}

// HeldSet describes a set that is not merged because it would remove too many pods.
type HeldSet struct {
	// Removes is how many pods the set would remove, and Pods how many the source has.
	Removes, Pods int
	// Since is the time from which sets of the source are held.
	Since time.Time
	// Until is the time at which the set is merged, because it is within the limit. It is
	// zero if the set is beyond the limit.
	Until time.Time
}

// settling is the time for which a set within the limit is held, after one beyond it.
const settling = time.Minute

// heldSet is the newest set of a source whose sets are held.
type heldSet struct {
	HeldSet

	set SourceSet
}

// LimitRemovals holds sets that would remove more pods of their source. It is called before
// Run. SetRemovalLimit changes the limit later.
//
// A held set is not merged at all, also not its new pods: a part of a set is a state that the
// source never had. Newer sets replace it. The hold ends with Release, with a set that removes
// no pod, or when sets have been within the limit for a minute in which no pod came back: a
// source may take a removal back step by step. A pod is removed if neither its UID nor its name
// is in the set, so a changed manifest removes no pod.
//
// The log has the result of toRelease, the command that releases a set that removes that many pods; nil for none.
func (c *PodConfig) LimitRemovals(limit RemovalLimit, toRelease func(source string, removes int) string) {
	c.removalLimit, c.toRelease = limit, toRelease
}

// SetRemovalLimit changes the limit while Run runs. A held set that is within the new limit is
// merged. The error is the cause of the context.
func (c *PodConfig) SetRemovalLimit(ctx context.Context, limit RemovalLimit) error {
	return c.calls.Do(ctx, func(ctx context.Context) error {
		if limit == c.removalLimit {
			return nil // a set that is within it waits until it is due
		}
		c.removalLimit = limit
		for _, source := range c.Sources() {
			held := c.heldSet(source)
			if held == nil {
				continue
			}
			if _, _, over := c.storage.over(limit, source, held.set.Pods); over {
				continue
			}
			if err := c.merge(ctx, c.unhold(ctx, source)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *PodConfig) heldSet(source string) *heldSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[source]
}

// Held returns the held set of a source, if there is one.
func (c *PodConfig) Held(source string) (held HeldSet, ok bool) {
	h := c.heldSet(source)
	if h == nil {
		return HeldSet{}, false
	}
	return h.HeldSet, true
}

// ErrNoSource is the error of Release for a source that does not exist.
var ErrNoSource = errors.New("there is no such source")

// ErrNotHeld is the error of Release for a source of which no set is held.
var ErrNotHeld = errors.New("no set of it is held")

// RemovesMoreError is the error of Release for a held set that removes more pods than the caller allows.
type RemovesMoreError struct {
	HeldSet

	// Source is the source of the set, and Most how many pods the caller allows.
	Source string
	Most   int
}

// Error says how many pods the held set removes.
func (e *RemovesMoreError) Error() string {
	return fmt.Sprintf("releasing source %s: the set that is held now removes %d of %d pods, more than %d", e.Source, e.Removes, e.Pods, e.Most)
}

// Release merges the held set of a source. If there is none, the error is ErrNoSource or ErrNotHeld. Since the caller
// looked at the held set, a newer one may have replaced it. So a set that removes more pods than most stays held, and
// the error is a RemovesMoreError; nil means no limit. Otherwise, an error is the cause of the context.
func (c *PodConfig) Release(ctx context.Context, source string, most *int) error {
	return c.calls.Do(ctx, func(ctx context.Context) error {
		held := c.heldSet(source)
		if held == nil {
			why := ErrNotHeld
			if !slices.Contains(c.Sources(), source) {
				why = ErrNoSource
			}
			return fmt.Errorf("releasing source %s: %w", source, why)
		}
		if most != nil && held.Removes > *most {
			return &RemovesMoreError{HeldSet: held.HeldSet, Source: source, Most: *most}
		}
		c.setHeld(source, nil)
		klog.FromContext(ctx).Info("Released a held set", "source", source, "origin", held.set.Origin)
		return c.merge(ctx, held.released(source))
	})
}

// setHeld replaces the held set of a source, and returns the previous one. Only Run calls it.
func (c *PodConfig) setHeld(source string, held *heldSet) (before *heldSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.held[source]
	if held != nil {
		c.held[source] = held
	} else {
		delete(c.held, source)
	}
	return before
}

// hold holds the set if it would remove too many pods, and returns whether it does.
func (c *PodConfig) hold(ctx context.Context, in sourcedSet) bool {
	removes, pods, over := c.storage.over(c.removalLimit, in.source, in.set.Pods)
	before, held := c.Held(in.source)
	if !over && (!held || removes == 0) {
		if held {
			c.unhold(ctx, in.source)
		}
		return false
	}
	now := time.Now()
	next := &heldSet{HeldSet{Removes: removes, Pods: pods, Since: now}, in.set}
	if held {
		next.Since, next.Until = before.Since, before.Until
	} else {
		logger := klog.FromContext(ctx).WithValues("source", in.source, "origin", in.set.Origin, "removed", removes, "pods", pods, "limit", c.removalLimit)
		if c.toRelease != nil {
			logger = logger.WithValues("toApply", c.toRelease(in.source, removes))
		}
		logger.Info("Holding a set: it would remove too many pods")
	}
	switch {
	case over:
		next.Until = time.Time{}
	case before.Until.IsZero() || removes < before.Removes:
		next.Until = now.Add(settling)
	}
	c.setHeld(in.source, next)
	return true
}

// unhold ends the hold of a source whose set is within the limit, and returns the set.
func (c *PodConfig) unhold(ctx context.Context, source string) sourcedSet {
	held := c.setHeld(source, nil)
	klog.FromContext(ctx).Info("No longer holding a set: the source has a set within the limit", "source", source, "origin", held.set.Origin)
	return held.released(source)
}

// released returns the set without its event, because the time for which it was held does not count as a delay.
func (h *heldSet) released(source string) sourcedSet {
	set := h.set
	set.Event = Event{}
	return sourcedSet{source, set}
}

// settled returns a channel that receives when the first held set is due, and the source of that set. The channel is
// nil if no held set has a time at which it is due.
func (c *PodConfig) settled() (due <-chan time.Time, source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first time.Time
	for name, held := range c.held {
		if !held.Until.IsZero() && (source == "" || held.Until.Before(first)) {
			first, source = held.Until, name
		}
	}
	if source == "" {
		return nil, ""
	}
	return time.After(time.Until(first)), source
}

// over reports whether the set would remove more pods of the source than the limit. It also returns how many it would
// remove, and how many the source has. It changes nothing that a merge depends on.
func (s *podStorage) over(limit RemovalLimit, source string, set []*v1.Pod) (removes, pods int, over bool) {
	before := s.sources[source]
	if before == nil {
		return 0, 0, false
	}
	pods = len(before.byUID)
	most, limited := limit.maxRemovals(pods)
	if !limited {
		return 0, pods, false
	}
	removes = before.removals(set)
	return removes, pods, removes > most
}

// removals returns how many pods the set would remove.
func (p *sourcePods) removals(set []*v1.Pod) (removes int) {
	old, fresh := p.change(set)
	uids, names := make(map[types.UID]struct{}, len(fresh)), make(map[podName]struct{}, len(fresh))
	for _, ref := range fresh {
		uids[ref.UID], names[nameOf(ref)] = struct{}{}, struct{}{}
	}
	for _, ref := range old {
		_, byUID := uids[ref.UID]
		_, byName := names[nameOf(ref)]
		if !byUID && !byName {
			removes++
		}
	}
	return removes
}
