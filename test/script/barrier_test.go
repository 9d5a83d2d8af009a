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

// barrierNamespace is that of the pods of barriers, which scripts don't see.
const barrierNamespace = "barrier"

const barrierManifest = `apiVersion: v1
kind: Pod
metadata: {name: barrier, namespace: ` + barrierNamespace + `}
spec: {containers: [{name: barrier, image: %q}]}
`

// barrier returns once the daemon has told all that follows from what was done to
// its files so far. Nothing here waits for time to pass: it makes changes of its own,
// which the daemon takes in order with those before, and waits for their updates.
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

// barrierInDir puts a manifest into the manifest path. By the time its pod is told
// a second time, the status that the daemon shows is one from after the first, and
// counts every file that was found to be half written or gone. When there is none of
// those, all is on its way that is to come, ahead of the pod's removal.
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

// putBarrier puts the barrier's manifest in place, another one than there was, and
// waits for its pod.
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

// settled waits until the daemon waits for no file.
func (sc *scenario) settled() error {
	return poll(func() error {
		_, source, err := sc.source()
		if err == nil && source.File.Settling > 0 {
			err = fmt.Errorf("%d files are settling", source.File.Settling)
		}
		return err
	})
}

// barrierByListing is for a manifest path that nothing can be put into. It has the
// daemon list the path twice: by the second time, what the first found has been sent.
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
				err = errors.New("the path was not listed anew")
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

// nudge makes an event that concerns the manifest path and changes nothing: it sets
// a file's mode to what it is, or makes a link that leads nowhere where nothing is.
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

// check returns the first promise that a stream broke.
func (sc *scenario) check() error {
	for _, name := range slices.Sorted(maps.Keys(sc.streams)) {
		if err := sc.streams[name].check(); err != nil {
			return fmt.Errorf("stream %q: %w", name, err)
		}
	}
	return nil
}

// checkPods holds what the daemon's own stream added up to against /pods.
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

// barrierOnly returns the revisions in which nothing but a barrier's pod changed.
func (sc *scenario) barrierOnly() map[int64]bool {
	s := sc.streams[""]
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.barrierOnly)
}
