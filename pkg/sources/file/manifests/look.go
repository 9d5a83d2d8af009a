package manifests

import (
	"errors"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

const (
	// settleWindow is how long after its last modification a file that is still open for
	// writing is not read.
	settleWindow = time.Second
	// unsureWindow is the same if it is unknown whether the file is open.
	unsureWindow = 5 * time.Millisecond
	// racyWindow is the minimum age of a file's last change, at the time of reading, for
	// its times to prove that it is unchanged. The coarsest clock among common file
	// systems ticks every two seconds.
	racyWindow = 2 * time.Second
	// readPatience is how long a read may take from a file that blocks its readers until
	// there is more, as some in /proc do.
	readPatience = time.Second
)

// contentSeed makes content hashes comparable within this process.
var contentSeed = maphash.MakeSeed()

// signature identifies the state of a file. A file with the same signature is unchanged.
type signature struct {
	inode
	size  int64
	mtime time.Time
	mode  fs.FileMode
}

// inode is what podconfigd reads of a file only on Linux. On other platforms, it is empty.
type inode struct {
	dev, ino uint64
	ctime    time.Time
	uid, gid uint32
}

func signatureOf(info fs.FileInfo) signature {
	return signature{inode: inodeOf(info), size: info.Size(), mtime: info.ModTime(), mode: info.Mode()}
}

// sameFile reports whether two signatures are of one file, which may have changed.
func (s signature) sameFile(other signature) bool {
	return s.ino != 0 && s.dev == other.dev && s.ino == other.ino
}

// settled reports whether the times are old enough at the given moment to show any later
// write.
func (s signature) settled(at time.Time) bool {
	return at.Sub(s.mtime) > racyWindow && at.Sub(s.ctime) > racyWindow
}

// knowledge is the result of an earlier look.
type knowledge struct {
	sig     signature
	trusted bool // sig was settled when the file was read
	content uint64
	decoded bool           // content is the hash of the bytes of pod or fault
	rules   manifest.Rules // they were decoded by
}

// sight is the result of a look at one path.
type sight struct {
	knowledge
	// gone means that the file does not exist.
	gone bool
	// busy means that the file is being written. Look again soon.
	busy bool
	// starved means that no file descriptor was left to open it. Look again soon.
	starved bool
	// same means that nothing changed since the earlier look.
	same bool
	pod  *v1.Pod
	// file is the file that pod was read from.
	file     *config.File
	warnings []manifest.Fault
	fault    *fault
}

// looker looks at paths. It is immutable.
type looker struct {
	decoder *manifest.Decoder
	metrics *metrics
	// impatient means that files are read even while they are being written.
	impatient bool
	// as is the path for the pod's UID.
	as string
}

// look reads and decodes the file at path, as far as it differs from the earlier look.
func (l *looker) look(path string, known knowledge) sight {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return sight{gone: true}
	}
	var s sight
	isLink := false
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		isLink = true
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		s.fault = faultOf(err)
	case !info.Mode().IsRegular():
		s.fault = notRegular(info.Mode())
	case known.decoded && known.trusted && known.sig == signatureOf(info):
		s.same, s.knowledge = true, known
	default:
		l.read(path, isLink, known, &s)
	}
	return s
}

// read opens and reads a file that was regular a moment ago.
func (l *looker) read(path string, isLink bool, known knowledge, s *sight) {
	// If the file was replaced by a FIFO, opening it must not block. If it was replaced
	// by a device, opening it must have no effect.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !isLink:
		s.gone = true // removed since the look
		return
	case err != nil:
		s.fault = faultOf(err)
		s.starved = errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		s.fault = faultOf(err)
		return
	case !info.Mode().IsRegular():
		s.fault = notRegular(info.Mode())
		return
	case !l.impatient && beingWritten(f, info.ModTime()):
		s.busy = true
		return
	}
	// A writer such as cp -p sets the mode before it closes the file, maybe after the first Stat.
	if info, err = f.Stat(); err != nil {
		s.fault = faultOf(err)
		return
	}
	at := time.Now()
	_ = f.SetReadDeadline(at.Add(readPatience)) // fails for files that never block
	data, err := manifest.Read(f, info.Size())
	l.metrics.reads.Inc()
	if _, tooLarge := errors.AsType[*manifest.Error](err); err != nil && !tooLarge {
		s.fault = faultOf(err)
		return
	}
	s.sig, s.decoded = signatureOf(info), true
	s.trusted = s.sig.settled(at)
	s.rules = l.decoder.Rules()
	if err != nil {
		s.fault = faultOf(err)
		return
	}
	s.content = maphash.Bytes(contentSeed, data)
	if known.decoded && known.content == s.content {
		s.same, s.rules = true, known.rules
		return
	}
	l.metrics.decodes.Inc()
	at = time.Now()
	s.pod, s.warnings, err = l.decoder.DecodeFile(l.as, data)
	l.metrics.decodeDuration.Observe(time.Since(at).Seconds())
	if err != nil {
		s.fault = faultOf(err)
		if !s.fault.foreign && (!isLink || !leaves(path)) {
			s.fault.lines = sources.FaultLines(data, manifest.FirstLine(s.fault.faults))
		}
	} else {
		s.file = &config.File{Path: path, Mode: uint32(s.sig.mode.Perm()), UID: s.sig.uid, GID: s.sig.gid}
	}
	if !utf8.ValidString(path) {
		s.warnings = append(s.warnings, manifest.Fault{Message: "the path is not UTF-8 and is shown with replacement characters"})
	}
}

// leaves reports whether a link leads out of its directory. Who can make links in the directory need not be allowed to read
// what they lead to.
func leaves(link string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(link))
	if err != nil {
		return true
	}
	target, err := filepath.EvalSymlinks(link)
	separator := string(filepath.Separator)
	return err != nil || !strings.HasPrefix(target, strings.TrimSuffix(dir, separator)+separator)
}

// beingWritten reports whether the file was modified recently and is not closed.
func beingWritten(f *os.File, modified time.Time) bool {
	age := time.Since(modified)
	if age > settleWindow || age < -settleWindow {
		return false
	}
	switch writers(f) {
	case someWriters:
		return true
	case unknownWriters:
		return age < unsureWindow
	default:
		return false
	}
}

// writerCount is whether processes have a file open for writing, as far as this can be
// known.
type writerCount int

const (
	unknownWriters writerCount = iota
	noWriters
	someWriters
)

type metrics struct {
	reads, decodes prometheus.Counter
	decodeDuration prometheus.Observer
}

// newMetrics registers the metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, "file_source")
	return &metrics{
		reads:          in.Counter("reads_total", "Manifest files read."),
		decodes:        in.Counter("decodes_total", "Manifest files decoded."),
		decodeDuration: sources.NewDecodeDuration(reg),
	}
}
