package config

import (
	"math/bits"
	"unsafe"

	v1 "k8s.io/api/core/v1"
)

// refTable finds a source's entries by the pointers that it sent, which is what every
// set does with every pod: a hash table with linear probing, laid out so that the
// look-ups of a large set stay in the processor's caches. The zero table is empty.
type refTable struct {
	refs []*v1.Pod // nil where there is none
	// generations are those of the last sets in which the refs were.
	generations []uint32
	entries     []*podEntry
	size        int
	shift       uint8
}

// minRefs is the room of the smallest table.
const minRefs = 16

// slot returns the ref's slot: where it is or would be. There must be room.
func (t *refTable) slot(ref *v1.Pod) int {
	mask := len(t.refs) - 1
	i := t.home(ref)
	for t.refs[i] != ref && t.refs[i] != nil {
		i = (i + 1) & mask
	}
	return i
}

// home returns the slot at which the search for ref begins.
func (t *refTable) home(ref *v1.Pod) int { return int(hash(ref) >> t.shift) }

// hash is Fibonacci hashing: the upper bits are what counts.
func hash(ref *v1.Pod) uint64 { return uint64(uintptr(unsafe.Pointer(ref))) * 0x9e3779b97f4a7c15 }

// touch notes which of the refs are in the set of this generation. It returns those
// that are not there, or stood in the set already, and how many the others are.
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

// generation returns that of the last set in which ref was.
func (t *refTable) generation(ref *v1.Pod) uint32 { return t.generations[t.slot(ref)] }

// put puts an entry under its ref, which must not be there yet.
func (t *refTable) put(entry *podEntry, generation uint32) {
	if 2*(t.size+1) > len(t.refs) { // half full: beyond that, searches grow longer
		t.grow(2 * (t.size + 1))
	}
	i := t.slot(entry.ref)
	t.refs[i], t.generations[i], t.entries[i] = entry.ref, generation, entry
	t.size++
}

// grow makes room for n refs.
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

// remove takes out a ref that is there, and moves up those that had to make way.
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

// absent returns the entries that were not in the set of this generation.
func (t *refTable) absent(generation uint32) (entries []*podEntry) {
	for i, ref := range t.refs {
		if ref != nil && t.generations[i] != generation {
			entries = append(entries, t.entries[i])
		}
	}
	return entries
}
