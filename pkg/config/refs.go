package config

import (
	"math/bits"
	"unsafe"

	v1 "k8s.io/api/core/v1"
)

// refTable maps the pod pointers of a source to its entries. Every set looks up every pod.
// The table is a hash table with linear probing. Its layout keeps the look-ups of a large
// set in the caches of the processor. The zero table is empty.
type refTable struct {
	refs []*v1.Pod // nil for an empty slot
	// generations has, for each ref, the generation of the last set with this ref.
	generations []uint32
	entries     []*podEntry
	size        int
	shift       uint8
}

const (
	// minRefs is the capacity of the smallest table.
	minRefs = 16
	// forgotten is the generation of refs that are not in the set.
	forgotten = 0
)

// slot returns the slot of ref, or the slot for ref if the table does not have it. The
// table must not be full.
func (t *refTable) slot(ref *v1.Pod) int {
	mask := len(t.refs) - 1
	i := t.home(ref)
	for t.refs[i] != ref && t.refs[i] != nil {
		i = (i + 1) & mask
	}
	return i
}

// home returns the slot at which the search for ref starts.
func (t *refTable) home(ref *v1.Pod) int { return int(hash(ref) >> t.shift) }

// hash is Fibonacci hashing: the upper bits are significant.
func hash(ref *v1.Pod) uint64 { return uint64(uintptr(unsafe.Pointer(ref))) * 0x9e3779b97f4a7c15 }

// touch marks the refs of the set with this generation. It returns the refs that are not in
// the table or occur a second time in the set, and the number of the other refs.
func (t *refTable) touch(set []*v1.Pod, generation uint32) (fresh []*v1.Pod, touched int) {
	if t.size == 0 {
		return set, 0
	}
	refs, generations, shift, mask := t.refs, t.generations, t.shift&63, uint64(len(t.refs)-1)
	for _, ref := range set {
		i := hash(ref) >> shift & mask
		for refs[i] != ref && refs[i] != nil {
			i = (i + 1) & mask
		}
		if refs[i] == nil || generations[i] == generation {
			fresh = append(fresh, ref)
			continue
		}
		generations[i] = generation
		touched++
	}
	return fresh, touched
}

// generation returns the generation of the last set with ref.
func (t *refTable) generation(ref *v1.Pod) uint32 { return t.generations[t.slot(ref)] }

// put adds an entry under its ref, which must not be in the table.
func (t *refTable) put(entry *podEntry, generation uint32) {
	if 2*(t.size+1) > len(t.refs) { // above half full, searches become longer
		t.grow(2 * (t.size + 1))
	}
	i := t.slot(entry.ref)
	t.refs[i], t.generations[i], t.entries[i] = entry.ref, generation, entry
	t.size++
}

// grow increases the capacity to n refs.
func (t *refTable) grow(n int) {
	before := *t
	length := max(minRefs, 1<<bits.Len(uint(n)))
	t.refs, t.generations, t.entries = make([]*v1.Pod, length), make([]uint32, length), make([]*podEntry, length)
	t.shift = uint8(64 - bits.TrailingZeros(uint(length)))
	for i, ref := range before.refs {
		if ref != nil {
			j := t.slot(ref)
			t.refs[j], t.generations[j], t.entries[j] = ref, before.generations[i], before.entries[i]
		}
	}
}

// remove removes a ref, which must be in the table. It moves displaced refs closer to
// their home slots.
func (t *refTable) remove(ref *v1.Pod) {
	mask := len(t.refs) - 1
	hole := t.slot(ref)
	for i := (hole + 1) & mask; t.refs[i] != nil; i = (i + 1) & mask {
		if (i-t.home(t.refs[i]))&mask >= (i-hole)&mask {
			t.refs[hole], t.generations[hole], t.entries[hole] = t.refs[i], t.generations[i], t.entries[i]
			hole = i
		}
	}
	t.refs[hole], t.entries[hole] = nil, nil
	t.size--
}

// forget marks refs, which must be in the table, as not in the set.
func (t *refTable) forget(refs []*v1.Pod) {
	for _, ref := range refs {
		t.generations[t.slot(ref)] = forgotten
	}
}

// absent returns the entries of those refs that are in the table and were not in the set of this generation.
func (t *refTable) absent(refs []*v1.Pod, generation uint32) (entries []*podEntry) {
	if t.size == 0 {
		return nil
	}
	for _, ref := range refs {
		if i := t.slot(ref); t.refs[i] != nil && t.generations[i] != generation {
			entries = append(entries, t.entries[i])
		}
	}
	return entries
}
