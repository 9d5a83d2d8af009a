package kubelet

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// Others returns the static pods whose UID podconfigd can't explain, ordered by name: neither an earlier version of the
// manifest nor the rules of another kubelet give that UID. A pod whose manifest may have been edited is not one of them before
// a kubelet must have replaced it.
func (f *Finder) Others() []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.others()
}

func (f *Finder) others() (names []types.NamespacedName) {
	for name, s := range f.running {
		if (s.unknown || f.found.source == SourceFlag) && !s.known && f.differs(name, s.uid) && (f.adopting || s.settled()) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return names
}

// Minor returns the minor version whose rules are followed.
func (f *Finder) Minor() int { return int(f.opts.Decoder.Minor()) }

// Status returns what was found and how, and what is wrong with it.
func (f *Finder) Status() *v1alpha1.KubeletStatus {
	present := f.Present()
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &v1alpha1.KubeletStatus{
		Version: f.found.version, Source: string(f.found.source), Rules: f.found.minor.Nearest().String(), Present: present,
	}
	others := f.others()
	switch n := len(others); {
	case n > 0:
		s.OtherUIDs = n
		running := f.running[others[0]]
		s.Detail = fmt.Sprintf("%v runs under UID %s, and the rules of kubelet %s give it %s", others[0], running.uid, s.Rules, f.decoded[others[0]])
		if n > 1 {
			s.Detail += fmt.Sprintf("; so do %d more", n-1)
		}
		s.Detail += f.advice()
	case !f.found.minor.Known():
		s.Detail = fmt.Sprintf("the rules of kubelet %v are not known: those of %s are used", f.found.minor, s.Rules)
	}
	return s
}

// advice says what to do about static pods with an unexplained UID.
func (f *Finder) advice() string {
	switch {
	case f.found.source == SourceFlag:
		return ": unset --kubelet-version to find the version"
	case !f.adopting: // the rules give the UIDs of other pods
		return ": the kubelet still runs an earlier version of the manifest, or has it from another file"
	}
	return fmt.Sprintf(": no rules of %v to %v give that UID, so it is taken from the sandbox: set the path and the node name exactly as for the kubelet (--pod-manifest-path, --hostname-override)",
		manifest.Oldest, manifest.Base)
}
