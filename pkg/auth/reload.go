package auth

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// reloadInterval is the minimum time between two reads of the files.
const reloadInterval = time.Second

// reloaded is a value that is parsed from files. When the value is used and the files have changed, they
// are parsed again. If that fails, the last value stays.
type reloaded[T any] struct {
	logger klog.Logger
	files  []string
	parse  func(contents [][]byte) (T, error)

	mu sync.Mutex // guards what follows
	// checked is the time of the last read. sum is the hash of the contents.
	checked time.Time
	sum     [sha256.Size]byte
	value   T
}

// newReloaded returns the value of the files, or the reason why they can't be used.
func newReloaded[T any](logger klog.Logger, parse func(contents [][]byte) (T, error), files ...string) (*reloaded[T], error) {
	r := &reloaded[T]{logger: logger, files: files, parse: parse}
	err := r.load()
	return r, err
}

// get returns the value.
func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) >= reloadInterval {
		if err := r.load(); err != nil {
			r.logger.Error(err, "Could not reload a file; its last contents stay in use", "files", r.files)
		}
	}
	return r.value
}

// load parses the files if they have changed since the last attempt.
func (r *reloaded[T]) load() error {
	contents := make([][]byte, len(r.files))
	var failed error
	hash := sha256.New()
	for i, file := range r.files {
		data, err := smallfile.Read(file)
		if err != nil && failed == nil {
			failed = err
		}
		fmt.Fprintf(hash, "%d %v\n", len(data), err)
		hash.Write(data)
		contents[i] = data
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	first := r.checked.IsZero()
	r.checked = time.Now()
	if !first && sum == r.sum {
		return nil // an error of the same contents is logged only once
	}
	r.sum = sum
	if failed != nil {
		return failed
	}
	value, err := r.parse(contents)
	if err != nil {
		return err
	}
	if r.value = value; !first {
		r.logger.Info("Reloaded a file", "files", r.files)
	}
	return nil
}
