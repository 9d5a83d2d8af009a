package kubelet

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// decide decides whether to adopt the UIDs of the kubelet, and reports whether that has changed. It adopts them if no rules
// give any of them, and each of them has stood for the time that a kubelet takes to replace the pod of an edited manifest.
// If the rules give some of them, the others belong to earlier versions of the manifests. If files are ignored, the kubelet may
// have the pods from them.
func (f *Finder) decide() (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, unknown, waiting := false, false, false
	for _, s := range f.running {
		known = known || s.known
		if s.unknown && !s.known {
			unknown, waiting = true, waiting || !s.settled()
		}
	}
	adopting := !known && !f.ignoring && (f.adopting || unknown && !waiting)
	changed = adopting != f.adopting
	f.adopting = adopting
	if f.nodeAt.after(f.found.at) {
		f.followNode() // the sandboxes that showed another version may be gone
	}
	return changed
}

// offer takes a version if its evidence is better or newer than that of the present one.
func (f *Finder) offer(next found) {
	now := &f.found
	switch by := next.source.rank() - now.source.rank(); {
	case now.source == SourceFlag, by < 0:
		return
	case now.source == SourceState && next.source.rank() == SourceSandboxes.rank() && next.minor != now.minor && !next.at.after(now.at):
		return // an old sandbox that is still there
	case by == 0 && !next.at.after(now.at):
		return
	}
	if next.minor == now.minor && len(now.version) > len(next.version) {
		next.version = now.version // such as v1.34.4, for 1.34
	}
	changed := next.minor != now.minor
	if !changed && now.at.after(next.at) {
		next.at = now.at // what was remembered is newer
	}
	f.found = next
	if changed {
		for _, s := range f.running {
			s.of, s.until = "", time.Time{} // the other rules give another UID
		}
		f.memory.Adopted = nil
		f.opts.Decoder.Use(next.minor)
	}
	f.Notice()
}

// report logs what was found, if it has changed. If patient, it does not log the base: something better may be found.
func (f *Finder) report(ctx context.Context, patient bool) {
	f.mu.Lock()
	now := f.found
	line := fmt.Sprintf("%v %v", now.minor, now.source)
	known := line == f.logged || patient && now.source == SourceBase
	if !known {
		f.logged = line
	}
	f.mu.Unlock()
	if !known {
		klog.FromContext(ctx).Info("Following the rules of a kubelet", "version", now.version, "rules", now.minor.Nearest(), "source", now.source)
	}
}
