package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Defaults of Options.
const (
	DefaultMaxAge       = 7 * 24 * time.Hour
	DefaultMaxBytes     = 64 << 20
	DefaultSegmentBytes = 4 << 20
	DefaultReplayBytes  = 16 << 20
)

const (
	// batchBytes is the approximate size of a write(2).
	batchBytes = 1 << 20
	// stall is the maximum duration of a write.
	stall = 2 * time.Second
	// syncEvery is the interval of syncs.
	syncEvery = time.Second
	// maxRetry is the longest wait between two attempts to create a segment.
	maxRetry = 30 * time.Second
	// closing is how long the end of Run waits for a write or fsync that hangs.
	closing = 3 * time.Second
	// reserve is the number of revisions that are reserved at a time. A new instance
	// starts above them, whatever was lost.
	reserve = 1 << 20
)

// Options configure a log.
type Options struct {
	// Dir is the directory.
	Dir string
	// Node is the name of the node. Segments of another node are set aside.
	Node string
	// FS is the file system; nil for OS.
	FS FS
	// BootID identifies the boot of the machine; the kernel's if empty.
	BootID string
	// MaxAge and MaxBytes limit the log. Whole segments are deleted. The newest one
	// stays. 0 means the default.
	MaxAge   time.Duration
	MaxBytes int64
	// SegmentBytes is the size of the sets in a segment, if its snapshot is not larger. By
	// default, four segments are at most MaxBytes.
	SegmentBytes int64
	// ReplayBytes limits the size of the segments whose sets are restored.
	ReplayBytes int64
	// Now returns the time; nil for time.Now.
	Now func() time.Time
	// Registerer is for the metrics; nil for none.
	Registerer prometheus.Registerer
}

// SetLimits changes Options.MaxAge and Options.MaxBytes. The next check, at most a second later,
// applies them.
func (l *Log) SetLimits(maxAge time.Duration, maxBytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opts.MaxAge, l.opts.MaxBytes = maxAge, maxBytes
	l.opts.SegmentBytes = min(DefaultSegmentBytes, maxBytes/4)
}

// mode determines what happens to a set.
type mode int

const (
	// opening: sets wait for the first segment.
	opening mode = iota
	// healthy: sets are shown after they are written.
	healthy
	// failed: sets are shown without being stored.
	failed
	// closed: no more sets are shown.
	closed
)

// Log is the append-only log. It is safe for concurrent use.
type Log struct {
	opts     Options
	ageClock ageClock
	metrics  *metrics
	logger   logr.Logger
	// writers are the goroutines that write: the current one, and earlier ones that hang in a write.
	writers sync.WaitGroup

	// mu guards the fields below. It is not held during input and output.
	mu sync.Mutex
	// changed is broadcast when a writer may go on.
	changed *sync.Cond
	mode    mode
	cause   error // of the last failure
	since   time.Time
	// table is the state after the newest set that was shown or is being shown.
	table *journal.Table
	// No revision is above the ceiling. note is the newest one, and latest the latest time of all sets.
	ceiling int64
	note    string
	latest  time.Time
	// instance is the instance under which sets are shown. unstored means that in the
	// failed state, a set was shown that is not stored.
	instance string
	unstored bool
	// generation is the generation of the current writer.
	generation int
	// queue has the sets that the writer has not taken yet. inflight has the sets that it is
	// writing.
	queue, inflight []*entry
	// rolling means that the writer begins a segment.
	rolling bool
	// showing means that a writer shows sets. After a failure, the next writer waits for it.
	showing bool
	// file is the current segment. current is its description, snapshot the size of its header and its
	// snapshot, and written its size.
	file              Appender
	current           *segment
	snapshot, written int64
	// synced is the size of the part that is synced. While it is 0, its name is not synced, and neither is the
	// segment before it, if before is set.
	synced int64
	before Appender
	// opens ends the wait for the first segment.
	opens *time.Timer
	// segments are the earlier ones, the oldest first.
	segments []*segment
	// unread are segments that could not be read at the start. They are deleted together with the
	// segments after them.
	unread []*segment
	// superseded are segments whose whole content is in the next segment. replaced is one of them, or
	// nil. The next segment has the same predecessor as replaced.
	superseded []*segment
	replaced   *segment
	lock       io.Closer
	closing    bool
	// full is true if the file system was full when a segment could not be begun. works means that in the failed
	// state, one could be written and synced.
	full    bool
	works   bool
	retryAt time.Time
	retry   time.Duration
	// kick wakes the goroutine of Run.
	kick chan struct{}
}

// entry is a set that is not shown yet.
type entry struct {
	frames []byte
	// after is the state after the set; nil for a note.
	after *journal.Table
	// show is called once; nil after that.
	show func(journal.Commit)
}

// Open reads the directory. The error is ErrLocked if another process uses it. All other
// problems are in the result, and the log retries to create a segment. The caller must
// call Begin and run the log, or close it.
func Open(opts Options) (*Log, *Recovered, error) {
	opts.FS = cmp.Or(opts.FS, OS)
	opts.MaxAge = cmp.Or(opts.MaxAge, DefaultMaxAge)
	opts.MaxBytes = cmp.Or(opts.MaxBytes, DefaultMaxBytes)
	opts.SegmentBytes = cmp.Or(opts.SegmentBytes, min(DefaultSegmentBytes, opts.MaxBytes/4))
	opts.ReplayBytes = cmp.Or(opts.ReplayBytes, DefaultReplayBytes)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.BootID == "" {
		opts.BootID = bootID()
	}
	l := &Log{opts: opts, logger: logr.Discard(), kick: make(chan struct{}, 1)}
	l.changed = sync.NewCond(&l.mu)
	l.metrics = newMetrics(opts.Registerer, l)
	unusable := l.enter()
	if errors.Is(unusable, ErrLocked) {
		return nil, nil, fmt.Errorf("state directory %s: %w", opts.Dir, unusable)
	}
	r := &recovery{
		fs: opts.FS, dir: opts.Dir, node: opts.Node, bootID: opts.BootID,
		replayBytes: opts.ReplayBytes, now: opts.Now(),
	}
	if err := r.run(); err != nil {
		unusable = cmp.Or(unusable, err)
		r.distrust = err.Error()
	}
	recovered := r.result()
	if unusable != nil {
		recovered.Problems = append(recovered.Problems, Problem{File: opts.Dir, Err: unusable})
	}
	l.instance, l.ceiling, l.note, l.latest = recovered.Instance, recovered.Reserved+reserve, r.note, r.latest
	l.segments, l.superseded, l.unread = r.segments, r.leftovers, r.unread
	l.ageClock = r.newAgeClock(opts.MaxAge / 8)
	l.follow(r)
	return l, recovered, nil
}

// follow records how much of the last segment of an earlier process counts. If it has no
// set, the next segment replaces it. So a process that is restarted repeatedly does not
// displace the history.
func (l *Log) follow(r *recovery) {
	n := len(l.segments)
	if n == 0 {
		return
	}
	last := l.segments[n-1]
	last.size = r.end.good
	if r.end.sets > 0 {
		return
	}
	l.segments, l.superseded, l.replaced = l.segments[:n-1], append(l.superseded, last), last
	if n > 1 && last.follows(l.segments[n-2]) {
		l.segments[n-2].size = last.header.PredecessorSize
	}
}

// enter creates and locks the directory.
func (l *Log) enter() error {
	if err := l.opts.FS.MkdirAll(l.opts.Dir); err != nil {
		return err
	}
	lock, err := l.opts.FS.Lock(filepath.Join(l.opts.Dir, lockName))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lock = nil; err == nil {
		l.lock = lock
	}
	return err
}

// Begin has the state before the first set.
func (l *Log) Begin(table *journal.Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table = table
}

// Append adds the next set. Its revisions are above those of the previous set. show is
// called when the set must be shown: in the order of sets, one at a time, from another
// goroutine, within about a second. After the log is closed, it is not called. Append
// does not wait.
func (l *Log) Append(set *journal.Set, show func(journal.Commit)) {
	passed := time.Duration(0)
	if l.ageClock.clockWasSet(set.Time) {
		passed = l.ageClock.elapsed()
	}
	frames, err := encodeSet(set, passed)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == closed || l.closing {
		return
	}
	if set.Time.After(l.latest) {
		l.latest = set.Time
	}
	if l.ceiling-set.Revision < reserve/2 {
		l.ceiling = set.Revision + reserve
		frames = appendCeiling(frames, l.ceiling)
	}
	l.enqueueLocked(&entry{frames, set.After, show})
	if err != nil {
		l.failLocked(err)
	}
}

// Remember stores a note, which replaces the one before. A start has it together with the sets that were appended after it.
// Like a set, it is stored later if that fails now. Remember does not wait.
func (l *Log) Remember(note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note = note
	if l.mode == opening || l.mode == healthy && !l.closing { // otherwise, the next segment begins with it
		l.enqueueLocked(&entry{frames: encodeNote(note)})
	}
}

func (l *Log) enqueueLocked(e *entry) {
	l.queue = append(l.queue, e)
	l.changed.Broadcast()
}
