package script

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// barrierNamespace is the namespace of the pods of barriers, which scripts do not see.
const barrierNamespace = "barrier"

const barrierManifest = `apiVersion: v1
kind: Pod
metadata: {name: barrier, namespace: ` + barrierNamespace + `}
spec: {containers: [{name: barrier, image: %q}]}
`

// barrier returns when the daemon has sent all updates for the changes of its files so
// far. It does not wait for time to pass. It makes its own changes, which the daemon
// handles after the earlier ones, and waits for their updates.
func (sc *scenario) barrier() error {
	if err := sc.check(); err != nil {
		return err
	}
	info, err := os.Stat(sc.path)
	if err == nil && info.IsDir() {
		err = sc.barrierInDir()
	} else {
		err = sc.barrierByListing()
	}
	if err != nil {
		return fmt.Errorf("while making sure that nothing more comes: %w", err)
	}
	return sc.checkPods()
}

// barrierInDir puts a manifest into the manifest path, twice. When its pod is sent for
// the second time, the status is from after the first time, and counts every incomplete
// or missing file. If there are none, all updates for earlier changes come before the
// removal of the pod.
func (sc *scenario) barrierInDir() error {
	for range 2 {
		if err := sc.putBarrier(); err != nil {
			return err
		}
	}
	if err := sc.settled(); err != nil {
		return err
	}
	return sc.removeBarrier()
}

func (sc *scenario) barrierFile() string { return filepath.Join(sc.path, "zz-barrier.yaml") }

// putBarrier writes a new version of the barrier's manifest, and waits for its pod.
func (sc *scenario) putBarrier() error {
	sc.barriers++
	image := fmt.Sprintf("barrier:%d", sc.barriers)
	temp := filepath.Join(sc.path, ".barrier")
	if err := os.WriteFile(temp, fmt.Appendf(nil, barrierManifest, image), 0o644); err != nil {
		return err
	}
	if err := os.Rename(temp, sc.barrierFile()); err != nil {
		return err
	}
	s := sc.streams[""]
	return s.wait(func() bool { return s.barrier == image })
}

func (sc *scenario) removeBarrier() error {
	if err := os.Remove(sc.barrierFile()); err != nil {
		return err
	}
	s := sc.streams[""]
	return s.wait(func() bool { return s.barrier == "" })
}

// settled waits until the daemon has no file to look at again.
func (sc *scenario) settled() error {
	return poll(func() error {
		_, source, err := sc.source()
		if err == nil && source.File.Settling > 0 {
			err = fmt.Errorf("%d files are settling", source.File.Settling)
		}
		return err
	})
}

// barrierByListing is for a manifest path that can't contain the barrier's manifest. It
// causes two listings: at the second, the changes of the first have been sent.
func (sc *scenario) barrierByListing() error {
	for range 2 {
		before, err := sc.scans()
		if err != nil {
			return err
		}
		if err := sc.nudge(); err != nil {
			return err
		}
		err = poll(func() error {
			now, err := sc.scans()
			if err == nil && now == before {
				err = errors.New("the path was not listed again")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := sc.settled(); err != nil {
		return err
	}
	status, _, err := sc.source()
	if err != nil {
		return err
	}
	s := sc.streams[""]
	return s.wait(func() bool { return s.newest >= status.Revision })
}

// nudge causes an event at the manifest path without a change: it sets a file's mode to
// its current value, or creates a dangling link if nothing is there.
func (sc *scenario) nudge() error {
	info, err := os.Stat(sc.path)
	if err == nil {
		return os.Chmod(sc.path, info.Mode().Perm())
	}
	path := sc.path
	for _, err := os.Lstat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist); _, err = os.Lstat(filepath.Dir(path)) {
		path = filepath.Dir(path)
	}
	if err := os.Symlink("barrier-to-nowhere", path); err != nil {
		return err
	}
	return os.Remove(path)
}

// check returns the first broken guarantee of a stream.
func (sc *scenario) check() error {
	for _, name := range slices.Sorted(maps.Keys(sc.streams)) {
		if err := sc.streams[name].check(); err != nil {
			return fmt.Errorf("stream %q: %w", name, err)
		}
	}
	return nil
}

// checkPods compares the pods of the daemon's own stream with /pods.
func (sc *scenario) checkPods() error {
	list, err := sc.client.Pods(sc.tb.Context())
	if err != nil {
		return err
	}
	want := sc.streams[""].pods()
	for i := range list.Items {
		pod := &list.Items[i]
		if name, ok := want[pod.UID]; !ok || name != pod.Namespace+"/"+pod.Name {
			return fmt.Errorf("/pods has %s/%s, UID %s, and the stream does not", pod.Namespace, pod.Name, pod.UID)
		}
		delete(want, pod.UID)
	}
	if len(want) > 0 {
		return fmt.Errorf("the stream has pods that /pods has not: %v", want)
	}
	return nil
}

// barrierOnly returns the revisions in which only a barrier's pod changed.
func (sc *scenario) barrierOnly() map[int64]bool {
	s := sc.streams[""]
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.barrierOnly)
}
