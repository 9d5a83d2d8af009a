package follow

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// refusing is a watcher that can watch nothing.
type refusing struct{ err error }

func (r refusing) Add(string) error            { return r.err }
func (refusing) Remove(string) error           { return nil }
func (refusing) Close() error                  { return nil }
func (refusing) Events() <-chan fsnotify.Event { return nil }
func (refusing) Errors() <-chan error          { return nil }

// A failure to watch is logged once per cause, even if the directories differ.
func TestPollingIsLoggedOncePerCause(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		elsewhere := t.TempDir()
		target := filepath.Join(elsewhere, "f")
		if err := os.WriteFile(target, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, fmt.Sprint("f", i))); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})))
	defer cancel()
	cause := syscall.ENOSPC
	f := New(Options{Path: dir, Period: time.Millisecond, Open: func() (Watcher, error) { return refusing{cause}, nil }})
	n := 0
	for range f.Changes(ctx, nil) {
		switch n++; n {
		case 50:
			cause = syscall.EACCES
		case 100:
			cancel()
		}
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "no space left") || !strings.Contains(lines[1], "permission denied") {
		t.Errorf("after %d listings %d lines: %s", n, len(lines), strings.Join(lines, "\n"))
	}
	if status := f.Status(); status.Watch != WatchPolling || !strings.Contains(status.WatchError, "permission denied") {
		t.Errorf("the status is %+v", status)
	}
}

// If the process has no file descriptor left, the error names this limit, not the limit
// of inotify instances.
func TestWhichLimitToRaise(t *testing.T) {
	if err := limitError(syscall.EMFILE, "max_user_instances"); !strings.Contains(err.Error(), "raise fs.inotify.max_user_instances") {
		t.Error(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := Inotify()
	err = limitError(err, "max_user_instances")
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "raise the limit of open files, RLIMIT_NOFILE") {
		t.Error(err)
	}
}

// The first change is a listing. Later ones have the names from the events: of a file,
// and of a link whose target changed.
func TestChanges(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "target")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(target, "1")
	if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(dir, ".hidden"), "")
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	again := make(chan time.Time, 1)
	f := New(Options{Path: dir, Period: time.Hour, PollPeriod: time.Hour})
	step, done := 0, false
	for change := range f.Changes(ctx, again) {
		switch {
		case step == 0 && change.Listed && change.Dir && fmt.Sprint(change.Names) == "[link]":
			write(filepath.Join(dir, "file"), "")
		case step == 1 && !change.Listed && fmt.Sprint(change.Names, change.Reported) == "[file] [file]":
			write(target, "2")
		case step == 2 && fmt.Sprint(change.Names) == "[link]":
			again <- time.Now()
		case step == 3 && !change.Listed && len(change.Names) == 0:
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
		case step == 4 && os.IsNotExist(change.Err):
			done = true
		case step > 0 && change.Err == nil: // further events of the same write
			step--
		default:
			t.Fatalf("at step %d: %+v", step, change)
		}
		if step++; done {
			break
		}
	}
	if !done {
		t.Errorf("step %d took too long", step)
	}
	if status := f.Status(); status.Watch != WatchInotify {
		t.Errorf("the status is %+v", status)
	}
}
