package kubelet

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// maxSandboxes limits the number of sandboxes that are remembered. Of more, the newest are.
const maxSandboxes = 4096

// Memory is what is remembered across a restart.
type Memory struct {
	// Version is the version of the kubelet. Source is where it was from.
	Version string `json:"version"`
	Source  Source `json:"source"`
	// Sandboxes are the IDs of the sandboxes of static pods that are not newer than what showed the version, in
	// the order in which they were seen. All others are newer, whatever the clock says.
	Sandboxes []string `json:"sandboxes,omitempty"`
	// Node is the version in the Node object; empty if it was not known.
	Node string `json:"node,omitempty"`
	// Odd is true if the UIDs of the kubelet were adopted.
	Odd bool `json:"odd,omitempty"`
	// Adopted has the UID by the rules of the version of the manifest that each sandbox runs, by ID of the sandbox, if
	// UIDs were adopted. A manifest that is edited while podconfigd is down has another one.
	Adopted map[string]types.UID `json:"adopted,omitempty"`
}

// remember stores what was found, if it has changed. What is not known is stored too: another release has
// another base, and the same pods.
func (f *Finder) remember(ctx context.Context) {
	f.mu.Lock()
	memory := Memory{
		Version: f.found.version, Source: f.found.source, Sandboxes: f.notNewer(), Node: cmp.Or(f.node, f.memory.Node), Odd: f.odd, Adopted: f.adopted(),
	}
	if f.found.source == SourceState {
		memory.Version, memory.Source = f.memory.Version, f.memory.Source
	}
	store := f.opts.Remember != nil && !reflect.DeepEqual(memory, f.memory)
	if store {
		f.memory = memory
	}
	f.mu.Unlock()
	if !store {
		return
	}
	if err := f.opts.Remember(memory); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to remember the version of the kubelet")
	}
}

// adopted returns the UID by the rules of what each sandbox runs, if UIDs are adopted.
func (f *Finder) adopted() map[string]types.UID {
	if f.running == nil { // the runtime has not answered yet
		return f.memory.Adopted
	}
	var uids map[string]types.UID
	for _, s := range f.running {
		if !f.odd || s.known || s.of == "" {
			continue
		}
		if uids == nil {
			uids = make(map[string]types.UID)
		}
		uids[s.id] = s.of
	}
	return uids
}

// notNewer returns the sandboxes that were there when the version was found, in the order in which they were
// seen.
func (f *Finder) notNewer() (ids []string) {
	for id, at := range f.sandboxes {
		if !at.after(f.found.at) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		switch x, y := f.sandboxes[a], f.sandboxes[b]; {
		case y.after(x):
			return -1
		case x.after(y):
			return 1
		}
		return cmp.Compare(a, b)
	})
	return ids[max(0, len(ids)-maxSandboxes):]
}
