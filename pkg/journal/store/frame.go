package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A frame starts with frameHead bytes: the length of its body, the body's checksum, and
// the checksum of these two. So a flipped bit in a length is never mistaken for an
// incomplete frame. The first byte of the body is its kind.
const (
	frameHead = 12
	// pieceBytes is the size after which a set continues in another frame. So a frame has at most one larger pod.
	pieceBytes = 256 << 10
)

// kind is the kind of a frame.
type kind byte

const (
	kindHeader kind = 'H'
	// kindPods is a piece of the snapshot, and kindState its end.
	kindPods  kind = 'p'
	kindState kind = 'P'
	// kindPiece is a piece of a set, and kindSet its end.
	kindPiece kind = 's'
	kindSet   kind = 'S'
	// kindTakeover means that the segment has all sets of its predecessor. Earlier versions wrote it.
	kindTakeover kind = 'T'
	// kindCeiling reserves revisions.
	kindCeiling kind = 'C'
	// kindNote replaces the note.
	kindNote kind = 'N'
	// kindStop ends a segment whose process stopped cleanly.
	kindStop kind = 'E'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// beginFrame appends an empty head and the kind. endFrame fills in the head.
func beginFrame(dst []byte, k kind) []byte {
	return append(append(dst, make([]byte, frameHead)...), byte(k))
}

// endFrame fills in the head of the frame that starts at the offset. It returns an error if the size of the body
// does not fit into the head.
func endFrame(dst []byte, start int) error {
	head, body := dst[start:start+frameHead], dst[start+frameHead:]
	if uint64(len(body)) > math.MaxUint32 {
		return fmt.Errorf("a record has %d bytes, and can have %d", len(body), uint32(math.MaxUint32))
	}
	binary.LittleEndian.PutUint32(head, uint32(len(body)))
	binary.LittleEndian.PutUint32(head[4:], checksum(body))
	binary.LittleEndian.PutUint32(head[8:], checksum(head[:8]))
	return nil
}

var (
	// errTorn means that the file ends within a frame.
	errTorn = errors.New("the file ends within a frame")
	// errDamaged means that a checksum is wrong, or that the protected data can't be
	// read.
	errDamaged = errors.New("damaged")
)

// frameReader reads the frames of a file.
type frameReader struct {
	r *bufio.Reader
	// offset is the start of the next frame. size is the end of the file.
	offset, size int64
	body         []byte
}

// next returns the next frame. Its body is valid until the next call. The error is io.EOF
// at the end, errTorn, errDamaged, or a read error.
func (f *frameReader) next() (kind, []byte, error) {
	left := f.size - f.offset
	if left == 0 {
		return 0, nil, io.EOF
	}
	if left < frameHead {
		return 0, nil, errTorn
	}
	var head [frameHead]byte
	if err := f.fill(head[:]); err != nil {
		return 0, nil, err
	}
	length := int64(binary.LittleEndian.Uint32(head[:]))
	switch {
	case checksum(head[:8]) != binary.LittleEndian.Uint32(head[8:]) || length == 0:
		return 0, nil, fmt.Errorf("%w at byte %d: not the head of a frame", errDamaged, f.offset)
	case length > left-frameHead:
		return 0, nil, errTorn
	}
	if int64(cap(f.body)) < length {
		f.body = make([]byte, length)
	}
	f.body = f.body[:length]
	if err := f.fill(f.body); err != nil {
		return 0, nil, err
	}
	if checksum(f.body) != binary.LittleEndian.Uint32(head[4:]) {
		return 0, nil, fmt.Errorf("%w at byte %d: wrong checksum", errDamaged, f.offset)
	}
	f.offset += frameHead + length
	return kind(f.body[0]), f.body[1:], nil
}

// fill reads bytes that must be there. A file that has become shorter is torn.
func (f *frameReader) fill(p []byte) error {
	_, err := io.ReadFull(f.r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}
