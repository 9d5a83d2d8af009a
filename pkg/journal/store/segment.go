package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

const (
	segmentPrefix, segmentSuffix = "journal-", ".log"
	lockName                     = "lock"
	readBuffer                   = 128 << 10
)

func segmentName(number uint64) string {
	return fmt.Sprintf("%s%010d%s", segmentPrefix, number, segmentSuffix)
}

// segmentNumber returns the number in the name of a segment, or of one that was set aside.
func segmentNumber(name string) (number uint64, aside, ok bool) {
	digits, ok := strings.CutPrefix(name, segmentPrefix)
	if !ok {
		return 0, false, false
	}
	digits, rest, ok := strings.Cut(digits, segmentSuffix)
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, rest != "", ok && err == nil && number > 0
}

// IsSegment reports whether a file of this name is a segment of a log, or was set aside by it.
func IsSegment(name string) bool {
	_, _, ok := segmentNumber(name)
	return ok
}

// IsFile reports whether a log has files of that name.
func IsFile(name string) bool { return IsSegment(name) || name == lockName }

// segment is a file of the log.
type segment struct {
	number uint64
	name   string
	size   int64
	header *header
	// verified means that its checksums were checked, or that this process wrote it.
	verified bool
}

// follows reports whether before is the predecessor of the segment, so that the header says how much
// of it counts. It is not the predecessor if a segment between both was set aside.
func (s *segment) follows(before *segment) bool { return s.header.Predecessor == before.number }

var (
	errForeign = errors.New("not a segment of a podconfigd journal")
	errNewer   = errors.New("written by a later version of podconfigd")
	errNode    = errors.New("of another node")
)

// reader reads one segment.
type reader struct {
	*frameReader

	file io.Closer
}

// openSegment opens a segment and reads its header.
func openSegment(fs FS, dir string, number uint64, name string) (*segment, *reader, error) {
	file, size, err := fs.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, nil, err
	}
	r := &reader{&frameReader{r: bufio.NewReaderSize(file, readBuffer), size: size, offset: preambleBytes}, file}
	h, err := r.header()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return &segment{number: number, name: name, size: size, header: h}, r, nil
}

// headOf returns a segment with its header, which it reads.
func headOf(fs FS, dir string, number uint64, name string) (*segment, error) {
	s, file, err := openSegment(fs, dir, number, name)
	if err == nil {
		err = file.file.Close()
	}
	return s, err
}

func (r *reader) header() (*header, error) {
	version, err := readPreamble(r.r)
	switch {
	case err != nil:
		return nil, err
	case version > formatVersion:
		return nil, fmt.Errorf("%w, in format %d: this version reads up to format %d", errNewer, version, formatVersion)
	}
	k, body, err := r.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errTorn
	case err != nil:
		return nil, err
	case k != kindHeader:
		return nil, fmt.Errorf("%w: it does not begin with a header", errDamaged)
	}
	return decodeHeader(body)
}

// snapshot reads the snapshot, which follows the header. If decode is false, it only
// checks that it is there.
func (r *reader) snapshot(decode bool) (*journal.Set, error) {
	d := setDecoder{set: &journal.Set{Updates: []*journal.Update{{}}}}
	for {
		k, body, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errTorn
		case err != nil:
			return nil, err
		case k != kindPods && k != kindState:
			return nil, fmt.Errorf("%w: the snapshot has no end", errDamaged)
		}
		if decode {
			if err := d.decodePiece(body); err != nil {
				return nil, err
			}
		}
		if k == kindState {
			return d.completeSet(), nil
		}
	}
}

// tail is the result of reading a segment after its snapshot.
type tail struct {
	// good is the end of the last complete set or other record.
	good int64
	// revision is the revision of the last set, or the base. time is the time of the last
	// set.
	revision int64
	time     time.Time
	ceiling  int64
	sets     int
	// note is the last note; empty if no record has one.
	note string
	// known is the time that had passed at the last record that has it; zero if no record has it.
	known known
	// stopped means that the last record is a clean stop. counts means that the segment
	// has all sets of its predecessor.
	stopped, counts bool
	// err is nil at the end of the file, errTorn, errDamaged, or a read error.
	err error
}

// sets reads the records after the snapshot, up to an offset, and calls visit with each
// complete set.
func (r *reader) sets(s *segment, until int64, visit func(*journal.Set) error) tail {
	t := tail{counts: !s.header.Rolled, good: r.offset, revision: s.header.Base, time: s.header.Created, ceiling: s.header.Ceiling}
	var d setDecoder
	for r.offset < until {
		k, body, err := r.next()
		if err == nil {
			err = r.record(k, body, &d, &t, visit)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.err = err
			}
			break
		}
		if d.set == nil {
			t.good = r.offset
		}
	}
	if t.err == nil && d.set != nil {
		t.err = errTorn
	}
	return t
}

// record handles one record.
func (r *reader) record(k kind, body []byte, d *setDecoder, t *tail, visit func(*journal.Set) error) error {
	if d.set != nil && k != kindPiece && k != kindSet {
		return fmt.Errorf("%w before byte %d: a set has no end", errDamaged, r.offset)
	}
	t.stopped = k == kindStop
	switch k {
	case kindCeiling:
		ceiling := int64(0)
		err := decode(body, func(c *codec) { number(c, headerCeiling, &ceiling) })
		t.ceiling = max(t.ceiling, ceiling)
		return err
	case kindNote:
		t.note = ""
		return decode(body, func(c *codec) { text(c, headerNote, &t.note) })
	case kindTakeover:
		t.counts = true
	case kindStop:
		var stop mark
		if err := decode(body, stop.fields); err != nil {
			return err
		}
		if stop.passed != 0 {
			t.time, t.known = stop.time, known{stop.passed, stop.time}
		}
	case kindPiece:
		return d.decodePiece(body)
	case kindSet:
		if err := d.decodePiece(body); err != nil {
			return err
		}
		set := d.completeSet()
		if set.First <= t.revision || set.Revision < set.First {
			return fmt.Errorf("%w before byte %d: revisions %d to %d after %d", errDamaged, r.offset, set.First, set.Revision, t.revision)
		}
		t.revision, t.time = set.Revision, set.Time
		if d.passed != 0 {
			t.known = known{d.passed, set.Time}
		}
		t.sets++
		return visit(set)
	}
	return nil // it may be a record of a later version
}
