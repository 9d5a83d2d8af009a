package config

import (
	v1 "k8s.io/api/core/v1"
)

// refTable maps the pod pointers of a source to its entries.
type refTable map[*v1.Pod]*podEntry

// forgotten is the generation of entries that are not in the set.
const forgotten = 0

// touch marks the entries of the set with this generation. It returns the refs that are not in
// the table or occur a second time in the set, and the number of the other refs.
func (t refTable) touch(set []*v1.Pod, generation uint32) (fresh []*v1.Pod, touched int) {
	for _, ref := range set {
		entry := t[ref]
		if entry == nil || entry.generation == generation {
			fresh = append(fresh, ref)
			continue
		}
		entry.generation = generation
		touched++
	}
	return fresh, touched
}

// put adds an entry under its ref.
func (t refTable) put(entry *podEntry, generation uint32) {
	t[entry.ref], entry.generation = entry, generation
}

// forget marks the entries of refs, which must be in the table, as not in the set.
func (t refTable) forget(refs []*v1.Pod) {
	for _, ref := range refs {
		t[ref].generation = forgotten
	}
}

// absent returns the entries of those refs that are in the table and were not in the set of this generation.
func (t refTable) absent(refs []*v1.Pod, generation uint32) (entries []*podEntry) {
	for _, ref := range refs {
		if entry := t[ref]; entry != nil && entry.generation != generation {
			entries = append(entries, entry)
		}
	}
	return entries
}
