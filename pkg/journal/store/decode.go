package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// field is one protobuf field: a number or bytes.
type field struct {
	number protowire.Number
	value  uint64
	bytes  []byte
}

func (f *field) int() int64      { return int64(f.value) }
func (f *field) text() string    { return string(f.bytes) }
func (f *field) time() time.Time { return time.Unix(0, int64(f.value)).UTC() }

// eachField calls visit with each field of a message. It skips fields with other wire
// types, which are from a later version.
func eachField(message []byte, visit func(f *field) error) error {
	for len(message) > 0 {
		number, wireType, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("%w: %w", errDamaged, protowire.ParseError(n))
		}
		message = message[n:]
		f := field{number: number}
		switch wireType {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			f.number = 0
			n = protowire.ConsumeFieldValue(number, wireType, message)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errDamaged, protowire.ParseError(n))
		}
		message = message[n:]
		if err := visit(&f); err != nil {
			return err
		}
	}
	return nil
}

// readPreamble reads the start of a segment, and returns the format version.
func readPreamble(r io.Reader) (uint32, error) {
	var b [preambleBytes]byte
	if n, err := io.ReadFull(r, b[:]); err != nil {
		if magic[:min(n, len(magic))] == string(b[:min(n, len(magic))]) {
			return 0, errTorn
		}
		return 0, errForeign
	}
	if string(b[:len(magic)]) != magic {
		return 0, errForeign
	}
	sum := len(b) - 4
	if checksum(b[:sum]) != binary.LittleEndian.Uint32(b[sum:]) {
		return 0, fmt.Errorf("%w: wrong checksum of the format version", errDamaged)
	}
	return binary.LittleEndian.Uint32(b[len(magic):]), nil
}

func decodeHeader(body []byte) (*header, error) {
	h := new(header)
	err := eachField(body, func(f *field) error {
		switch f.number {
		case headerInstance:
			h.Instance = f.text()
		case headerNode:
			h.Node = f.text()
		case headerBootID:
			h.BootID = f.text()
		case headerCreated:
			h.Created = f.time()
		case headerBase:
			h.Base = f.int()
		case headerCeiling:
			h.Ceiling = f.int()
		case headerPredecessor:
			h.Predecessor = f.value
		case headerPredecessorSize:
			h.PredecessorSize = f.int()
		case headerLatest:
			h.Latest = f.time()
		case headerPassed:
			h.Passed = time.Duration(f.int())
		case headerRolled:
			h.Rolled = f.value != 0
		}
		return nil
	})
	if err == nil && h.Instance == "" {
		err = fmt.Errorf("%w: no instance in the header", errDamaged)
	}
	return h, err
}

// setDecoder assembles a set, or a snapshot, from its pieces.
type setDecoder struct {
	set *Set
	// passed is the time that had passed at the set, or 0.
	passed time.Duration
}

// add adds the next piece.
func (d *setDecoder) add(body []byte) error {
	if d.set == nil {
		d.set, d.passed = new(Set), 0
	}
	return eachField(body, func(f *field) error {
		switch f.number {
		case setFirst:
			d.set.First = f.int()
		case setRevision:
			d.set.Revision = f.int()
		case setTime:
			d.set.Time = f.time()
		case setPassed:
			d.passed = time.Duration(f.int())
		case setUpdate:
			u, err := decodeUpdate(f.bytes)
			d.set.Updates = append(d.set.Updates, u)
			return err
		case setPod:
			if len(d.set.Updates) == 0 {
				return fmt.Errorf("%w: a pod without an update", errDamaged)
			}
			u := &d.set.Updates[len(d.set.Updates)-1]
			p, err := decodePod(f.bytes, u.Source)
			u.Pods = append(u.Pods, p)
			return err
		case setNamed:
			p, err := decodePod(f.bytes, "")
			d.set.Named = append(d.set.Named, p)
			return err
		case setSource:
			s, err := decodeSource(f.bytes)
			d.set.Sources = append(d.set.Sources, s)
			return err
		}
		return nil
	})
}

// take returns the set, which is now complete.
func (d *setDecoder) take() *Set {
	set := d.set
	d.set = nil
	return set
}

func decodeUpdate(message []byte) (Update, error) {
	var u Update
	err := eachField(message, func(f *field) error {
		switch f.number {
		case updateOp:
			u.Op = config.PodOperation(f.int() - 1)
		case updateSource:
			u.Source = f.text()
		case updateRevision:
			u.Revision = f.int()
		case updateStatusOnly:
			u.StatusOnly = f.value != 0
		}
		return nil
	})
	return u, err
}

func decodePod(message []byte, source string) (Pod, error) {
	p := Pod{Source: source, Object: new(v1.Pod)}
	err := eachField(message, func(f *field) error {
		switch f.number {
		case podRevision:
			p.Revision = f.int()
		case podByName:
			p.ByName = f.int()
		case podSource:
			p.Source = f.text()
		case podObject:
			if err := p.Object.Unmarshal(f.bytes); err != nil {
				return fmt.Errorf("%w: a pod: %w", errDamaged, err)
			}
		case podNamespace:
			p.Object.Namespace = f.text()
		case podName:
			p.Object.Name = f.text()
		case podUID:
			p.Object.UID = types.UID(f.text())
		case podTooLarge:
			p.TooLarge = f.value != 0
		case podStatus:
			p.Status = new(v1.PodStatus)
			if err := p.Status.Unmarshal(f.bytes); err != nil {
				return fmt.Errorf("%w: the status of a pod: %w", errDamaged, err)
			}
		case podFile:
			p.File = new(config.File)
			return decodeFile(f.bytes, p.File)
		}
		return nil
	})
	return p, err
}

func decodeFile(message []byte, file *config.File) error {
	return eachField(message, func(f *field) error {
		switch f.number {
		case filePath:
			file.Path = f.text()
		case fileUID:
			file.UID = uint32(f.value)
		case fileGID:
			file.GID = uint32(f.value)
		case fileMode:
			file.Mode = uint32(f.value)
		}
		return nil
	})
}

func decodeSource(message []byte) (Source, error) {
	var s Source
	err := eachField(message, func(f *field) error {
		switch f.number {
		case sourceName:
			s.Name = f.text()
		case sourceSeen:
			s.Seen = f.value != 0
		case sourceTime:
			s.Time = f.time()
		case sourceAttribute:
			var key, value string
			err := eachField(f.bytes, func(f *field) error {
				switch f.number {
				case attributeKey:
					key = f.text()
				case attributeValue:
					value = f.text()
				}
				return nil
			})
			if s.Attributes == nil {
				s.Attributes = make(map[string]string)
			}
			s.Attributes[key] = value
			return err
		}
		return nil
	})
	return s, err
}

func decodeCeiling(body []byte) (ceiling int64, err error) {
	err = eachField(body, func(f *field) error {
		if f.number == headerCeiling {
			ceiling = f.int()
		}
		return nil
	})
	return ceiling, err
}
