package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// The content of a frame is protobuf fields, so that a later version can add fields. The
// fields of a set are flat and in order: a pod belongs to the update before it.

const (
	// magic and the format version begin each segment, then comes a checksum of both.
	magic         = "podconfd"
	formatVersion = 1
	preambleBytes = int64(len(magic) + 8)
)

// header is the header of a segment.
type header struct {
	Instance, Node, BootID string
	Created                time.Time
	// Latest is the latest time of all earlier sets. The clock may have been set back
	// since then.
	Latest time.Time
	// Passed is the time that had passed when the segment was begun; 0 if it is not known.
	Passed time.Duration
	// Base is the revision of the snapshot that follows.
	Base int64
	// Ceiling is a revision that no revision exceeds yet.
	Ceiling int64
	// Predecessor is the number of the previous segment, 0 for none. PredecessorSize is
	// how much of it counts.
	Predecessor     uint64
	PredecessorSize int64
	// Rolled means that sets were written to the predecessor while this segment was
	// prepared. The segment counts from the record on that confirms that it has these
	// sets too.
	Rolled bool
}

// Numbers of fields.
const (
	headerInstance protowire.Number = iota + 1
	headerNode
	headerBootID
	headerCreated
	headerBase
	headerCeiling
	headerPredecessor
	headerPredecessorSize
	headerRolled
	headerLatest
	headerPassed
)

const (
	setFirst protowire.Number = iota + 1
	setRevision
	setTime
	setUpdate
	setPod
	setSource
	setNamed
	setPassed
)

const (
	updateOp protowire.Number = iota + 1
	updateSource
	updateRevision
	updateStatusOnly
)

const (
	podRevision protowire.Number = iota + 1
	podByName
	podSource
	podObject
	podNamespace
	podName
	podUID
	podFile
	podStatus
	podTooLarge
)

const (
	filePath protowire.Number = iota + 1
	fileUID
	fileGID
	fileMode
)

const (
	sourceName protowire.Number = iota + 1
	sourceSeen
	sourceTime
	sourceAttribute
)

const (
	attributeKey protowire.Number = iota + 1
	attributeValue
)

func appendInt[T int | int64 | uint32 | uint64](dst []byte, n protowire.Number, v T) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, n, protowire.VarintType), uint64(v))
}

func appendText[T ~string](dst []byte, n protowire.Number, v T) []byte {
	if v == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, n, protowire.BytesType), string(v))
}

func appendTime(dst []byte, n protowire.Number, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return appendInt(dst, n, t.UnixNano())
}

func appendMessage(dst []byte, n protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), message)
}

// encodeHeader returns the preamble and the frame of the header.
func encodeHeader(h *header) []byte {
	dst := []byte(magic)
	dst = binary.LittleEndian.AppendUint32(dst, formatVersion)
	dst = binary.LittleEndian.AppendUint32(dst, checksum(dst[len(dst)-len(magic)-4:]))
	start := len(dst)
	dst = beginFrame(dst, kindHeader)
	dst = appendText(dst, headerInstance, h.Instance)
	dst = appendText(dst, headerNode, h.Node)
	dst = appendText(dst, headerBootID, h.BootID)
	dst = appendTime(dst, headerCreated, h.Created)
	dst = appendInt(dst, headerBase, h.Base)
	dst = appendInt(dst, headerCeiling, h.Ceiling)
	dst = appendInt(dst, headerPredecessor, h.Predecessor)
	dst = appendInt(dst, headerPredecessorSize, h.PredecessorSize)
	dst = appendTime(dst, headerLatest, h.Latest)
	dst = appendInt(dst, headerPassed, int64(h.Passed))
	if h.Rolled {
		dst = appendInt(dst, headerRolled, 1)
	}
	_ = endFrame(dst, start) // it has names and numbers
	return dst
}

// encodeSet returns the frames of a set. passed is the time that has passed; 0 if that follows from the
// clock. It notes in the set which pods are too large.
func encodeSet(s *Set, passed time.Duration) ([]byte, error) {
	start := 0
	dst := beginFrame(nil, kindPiece)
	split := func() (err error) {
		if len(dst)-start > pieceBytes {
			err = endFrame(dst, start)
			start = len(dst)
			dst = beginFrame(dst, kindPiece)
		}
		return err
	}
	dst = appendInt(dst, setFirst, s.First)
	dst = appendInt(dst, setRevision, s.Revision)
	dst = appendTime(dst, setTime, s.Time)
	dst = appendInt(dst, setPassed, int64(passed))
	var meta []byte
	for i := range s.Updates {
		u := &s.Updates[i]
		meta = appendInt(meta[:0], updateOp, int(u.Op)+1)
		meta = appendText(meta, updateSource, u.Source)
		meta = appendInt(meta, updateRevision, u.Revision)
		if u.StatusOnly {
			meta = appendInt(meta, updateStatusOnly, 1)
		}
		dst = appendMessage(dst, setUpdate, meta)
		for k := range u.Pods {
			err := split()
			if err != nil {
				return nil, err
			}
			if dst, err = appendPod(dst, &u.Pods[k], u.Op == config.REMOVE, false); err != nil {
				return nil, err
			}
		}
	}
	for i := range s.Named {
		if err := split(); err != nil {
			return nil, err
		}
		p := &s.Named[i]
		meta = appendText(meta[:0], podSource, p.Source)
		meta = appendText(meta, podUID, p.Object.UID)
		dst = appendMessage(dst, setNamed, appendInt(meta, podByName, p.ByName))
	}
	for i := range s.Sources {
		dst = appendMessage(dst, setSource, appendSource(meta[:0], &s.Sources[i]))
	}
	dst[start+frameHead] = byte(kindSet)
	return dst, endFrame(dst, start)
}

// appendPod appends a pod as a field, and notes whether it is too large. If the update names its source,
// the pod does not need to.
func appendPod(dst []byte, p *Pod, nameOnly, withSource bool) ([]byte, error) {
	var buffer [256]byte
	meta := appendInt(buffer[:0], podRevision, p.Revision)
	meta = appendInt(meta, podByName, p.ByName)
	if withSource {
		meta = appendText(meta, podSource, p.Source)
	}
	if f := p.File; f != nil {
		file := appendText(nil, filePath, f.Path)
		file = appendInt(file, fileUID, f.UID)
		file = appendInt(file, fileGID, f.GID)
		meta = appendMessage(meta, podFile, appendInt(file, fileMode, f.Mode))
	}
	dst = protowire.AppendTag(dst, setPod, protowire.BytesType)
	size, status := 0, []byte(nil)
	if !nameOnly {
		var err error
		if size = p.Object.Size(); p.Status != nil {
			if status, err = p.Status.Marshal(); err != nil {
				return nil, fmt.Errorf("encoding the status of pod %s/%s: %w", p.Object.Namespace, p.Object.Name, err)
			}
		}
		if p.TooLarge = size+len(status) > maxPod; p.TooLarge {
			meta, nameOnly = appendInt(meta, podTooLarge, 1), true
		}
	}
	if nameOnly {
		meta = appendText(meta, podNamespace, p.Object.Namespace)
		meta = appendText(meta, podName, p.Object.Name)
		meta = appendText(meta, podUID, p.Object.UID)
		return protowire.AppendBytes(dst, meta), nil
	}
	if p.Status != nil {
		meta = appendMessage(meta, podStatus, status)
	}
	// The object comes last, and is encoded in place.
	dst = protowire.AppendVarint(dst, uint64(len(meta)+protowire.SizeTag(podObject)+protowire.SizeBytes(size)))
	dst = append(dst, meta...)
	dst = protowire.AppendTag(dst, podObject, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	n := len(dst)
	dst = slices.Grow(dst, size)[:n+size]
	if _, err := p.Object.MarshalToSizedBuffer(dst[n:]); err != nil {
		return nil, fmt.Errorf("encoding pod %s/%s: %w", p.Object.Namespace, p.Object.Name, err)
	}
	return dst, nil
}

func appendSource(dst []byte, s *Source) []byte {
	dst = appendText(dst, sourceName, s.Name)
	if s.Seen {
		dst = appendInt(dst, sourceSeen, 1)
	}
	dst = appendTime(dst, sourceTime, s.Time)
	for _, key := range slices.Sorted(maps.Keys(s.Attributes)) {
		pair := appendText(nil, attributeKey, key)
		dst = appendMessage(dst, sourceAttribute, appendText(pair, attributeValue, s.Attributes[key]))
	}
	return dst
}

// appendState appends the last frame of a snapshot.
func appendState(dst []byte, sources map[string]Source) ([]byte, error) {
	start := len(dst)
	dst = beginFrame(dst, kindState)
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		s := sources[name]
		dst = appendMessage(dst, setSource, appendSource(nil, &s))
	}
	return dst, endFrame(dst, start)
}

// appendCeiling appends the frame that reserves revisions.
func appendCeiling(dst []byte, ceiling int64) []byte {
	start := len(dst)
	dst = appendInt(beginFrame(dst, kindCeiling), headerCeiling, ceiling)
	_ = endFrame(dst, start) // it has a number
	return dst
}

// takeover returns the frame that ends the preparation of a segment.
func takeover() []byte {
	dst := beginFrame(nil, kindTakeover)
	_ = endFrame(dst, 0) // it is empty
	return dst
}

// appendStop appends the frame of a clean stop.
func appendStop(dst []byte, now time.Time, passed time.Duration) []byte {
	start := len(dst)
	dst = appendTime(beginFrame(dst, kindStop), setTime, now)
	dst = appendInt(dst, setPassed, int64(passed))
	_ = endFrame(dst, start) // it has a number
	return dst
}
