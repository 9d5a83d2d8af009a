package manifest

import (
	"encoding/binary"
	"math/bits"
)

// fnv128a is the hash of hash/fnv.New128a. It keeps its state in registers while it goes over a text, which takes a
// third of the time.
type fnv128a struct{ high, low uint64 }

func newFNV128a() *fnv128a { return &fnv128a{high: 0x6c62272e07bb0142, low: 0x62b821756295c58d} }

// Write adds a text to the hash. It never fails.
func (h *fnv128a) Write(text []byte) (int, error) {
	const primeLow, primeShift = 0x13b, 24 // the prime is 1<<88 + 0x13b
	high, low := h.high, h.low
	for _, c := range text {
		low ^= uint64(c)
		carry, product := bits.Mul64(primeLow, low)
		high, low = carry+low<<primeShift+primeLow*high, product
	}
	h.high, h.low = high, low
	return len(text), nil
}

func (h *fnv128a) Sum(to []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(to, h.high), h.low)
}

func (h *fnv128a) Reset()         { *h = *newFNV128a() }
func (h *fnv128a) Size() int      { return 16 }
func (h *fnv128a) BlockSize() int { return 1 }
