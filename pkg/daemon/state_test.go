package daemon

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/podconfigd/podconfigd/pkg/kubelet"
)

// stateIn returns a configuration with a state directory.
func stateIn(dir string) *Config {
	c := new(Config)
	c.StateDir = dir
	c.setDefaults()
	return c
}

// logged opens a state directory and returns what a start logs of it.
func logged(t *testing.T, dir string) (log string) {
	t.Helper()
	s, err := openState(stateIn(dir), "node1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.report(funcr.New(func(_, args string) { log += args + "\n" }, funcr.Options{}))
	return log
}

// A start says what it found, and what to do about it.
func TestStateDirectoryReport(t *testing.T) {
	for name, test := range map[string]struct {
		mode      os.FileMode
		want, not string
	}{
		"private":                 {0o700, `"Made a journal in the state directory"`, "subscribers start again"},
		"readable by all":         {0o755, `"Made a journal in the state directory"`, "Other users"},
		"writable by the group":   {0o770, `"Other users can write to the state directory, and so change the pods that the next start restores; run chmod 0700"`, "Error"},
		"writable by all, sticky": {os.ModeSticky | 0o777, `"mode"="1777"`, "Error"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, test.mode); err != nil {
				t.Fatal(err)
			}
			if log := logged(t, dir); !strings.Contains(log, test.want) || strings.Contains(log, test.not) {
				t.Error(log)
			}
		})
	}
}

// No journal is made in a directory that can't be made.
func TestStateDirectoryThatCannotBeMade(t *testing.T) {
	if log := logged(t, "/proc/state"); !strings.Contains(log, "mkdir /proc/state: no such file or directory") || strings.Contains(log, "Made a journal") {
		t.Error(log)
	}
}

func TestStateDirectoryOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	first, err := openState(stateIn(dir), "node1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	want := "--state-dir: state directory " + dir + ": locking " + dir + "/lock: another process uses the directory: stop it, or choose another directory"
	if _, err := openState(stateIn(dir), "node1", nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestStateDirectoryOfAnotherUser(t *testing.T) {
	err := advise(&os.PathError{Op: "open", Path: "/state/lock", Err: syscall.EACCES})
	if !strings.HasPrefix(err.Error(), "open /state/lock: permission denied: podconfigd runs as user ") || !strings.HasSuffix(err.Error(), ", who must own the directory and its files") {
		t.Error(err)
	}
	if advise(nil) != nil || advise(syscall.ENOSPC) != syscall.ENOSPC { //nolint:errorlint // it is the same
		t.Error("another error has changed")
	}
}

// A start says that it can't read the version of the kubelet, because static pods get other UIDs then.
func TestTheRememberedKubeletCantBeRead(t *testing.T) {
	for data, want := range map[string]bool{`{"version":"1.35","source":"state"}`: false, `{"version":`: true, `{}`: true, `{"version":"2.5"}`: true, "": true} {
		t.Run(cmp.Or(data, "empty"), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, kubeletName), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := openState(stateIn(dir), "node1", nil)
			if err != nil {
				t.Fatal(err)
			}
			memory, log := s.kubelet(), ""
			s.report(funcr.New(func(_, args string) { log += args + "\n" }, funcr.Options{}))
			s.close()
			if got := strings.Contains(log, "set --kubelet-version"); got != want || (memory == nil) != want {
				t.Errorf("%s: remembered %+v, log %s", data, memory, log)
			}
		})
	}
}

// What the journal remembers of the kubelet counts, and not the file of an earlier version, which may be old.
func TestTheJournalRemembersTheKubelet(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, kubeletName), []byte(`{"version":"1.34","source":"state"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1.34", "1.36"} {
		s, err := openState(stateIn(dir), "node1", nil)
		if err != nil {
			t.Fatal(err)
		}
		if memory := s.kubelet(); memory == nil || memory.Version != want {
			t.Errorf("%+v is remembered, want %s", memory, want)
		}
		s.rememberKubelet(&kubelet.Memory{Version: "1.36"})
		ctx, stop := context.WithCancel(t.Context())
		stop()
		s.log.Begin(s.recovered.Base) // as a journal does
		_ = s.log.Run(ctx)            // it was stopped
	}
}
