package kubelet

import (
	"cmp"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// maxSandboxes limits the number of sandboxes that are remembered. If there are more, the newest are remembered.
const maxSandboxes = 4096

// Memory is what is remembered across a restart.
type Memory struct {
	// Version is the version of the kubelet. Source says what showed it.
	Version string `json:"version"`
	Source  Source `json:"source"`
	// Sandboxes has the IDs of the sandboxes of static pods that were seen before the evidence for the version, or with
	// it, in the order in which they were seen. Any other sandbox is newer, whatever the clock says.
	Sandboxes []string `json:"sandboxes,omitempty"`
	// Node is the version in the Node object; empty if it was not known.
	Node string `json:"node,omitempty"`
	// Odd means that the UIDs of the kubelet were adopted.
	Odd bool `json:"odd,omitempty"`
	// If UIDs were adopted, Adopted has the UID that the rules give the manifest of each sandbox, by ID of the sandbox. If
	// the manifest is edited while podconfigd is down, the rules give another UID.
	Adopted map[string]types.UID `json:"adopted,omitempty"`
}

// remember stores what was found, if it has changed. It also stores the base, if nothing is known: the next release has
// another base, and the pods must keep their UIDs. An exception is a base beside restored pods, whose UIDs may show
// another version when their manifests are decoded.
func (f *Finder) remember() {
	f.mu.Lock()
	defer f.mu.Unlock()
	memory := Memory{
		Version: f.found.version, Source: f.found.source, Sandboxes: f.notNewer(), Node: cmp.Or(f.node, f.memory.Node), Odd: f.odd, Adopted: f.adopted(),
	}
	if f.found.source == SourceState && f.memory.Version != "" {
		memory.Version, memory.Source = f.memory.Version, f.memory.Source
	}
	if f.opts.Remember == nil || f.found.source == SourceBase && len(f.restored) > 0 || reflect.DeepEqual(memory, f.memory) {
		return
	}
	f.memory = memory
	f.opts.Remember(&memory)
}

// adopted returns Memory.Adopted.
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

// notNewer returns Memory.Sandboxes.
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
