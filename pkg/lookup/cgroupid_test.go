package lookup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// makeCgroup makes a cgroup below a mount until the test ends, and returns its ID.
func makeCgroup(t *testing.T, m *cgroupMount, path string) uint64 {
	t.Helper()
	dir := m.point
	for _, name := range filepath.SplitList(path) {
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Skipf("making a cgroup: %v", err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) }) // one that has others stays until its own cleanup
	}
	id, err := inode(dir)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// realCgroups returns the cgroups of the machine.
func realCgroups(t *testing.T) (*cgroupTree, *cgroupMount) {
	t.Helper()
	c := newCgroupTree("/proc")
	m, err := c.mounted()
	if err != nil {
		t.Skip(err)
	}
	return c, m
}

// The IDs of the cgroups of a container, of one below it, and of the pod.
func TestCgroupIDs(t *testing.T) {
	c, m := realCgroups(t)
	base := fmt.Sprintf("test-%d-kubepods", os.Getpid())
	sep := string(filepath.ListSeparator)
	foreign := makeCgroup(t, m, base)
	ofPod := makeCgroup(t, m, base+sep+"podweb")
	app := makeCgroup(t, m, base+sep+"podweb"+sep+appID)
	below := makeCgroup(t, m, base+sep+"podweb"+sep+appID+sep+otherID)
	onNode(t, true, func(n *node) {
		n.serves()
		if err := os.Mkdir(filepath.Join(n.proc, "self"), 0o755); err != nil {
			t.Fatal(err)
		}
		v1 := "32 30 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n33 30 0:28 / /nowhere rw - cgroup2 cgroup2 rw\n"
		if err := os.WriteFile(filepath.Join(n.proc, "self", "mountinfo"), []byte(v1), 0o600); err != nil {
			t.Fatal(err)
		}
		n.expect(fmt.Sprintf("looking up cgroup ID %d: cgroup v2 is not mounted on this machine, and the cgroups of version 1 have no IDs: look up the cgroup by its path", app), Query{CgroupID: app})
		n.cgroups = newCgroupTree("/proc")
		n.expect("file web", Query{CgroupID: ofPod})
		n.expect("file web app running", Query{CgroupID: app})
		n.expect("file web app running", Query{CgroupID: below}) // whatever its name is
		n.expect(fmt.Sprintf("looking up cgroup ID %d: it belongs to no container: its path is /%s", foreign, base), Query{CgroupID: foreign})
		n.expect("looking up cgroup ID 18446744073709551615: there is no such cgroup of version 2", Query{CgroupID: 1<<64 - 1})
	})
	t.Run("by a walk", func(t *testing.T) {
		find := func(id uint64) string {
			path, err := c.search(t.Context(), m, id)
			if err != nil {
				return err.Error()
			}
			return path
		}
		if got, want := find(below), "/"+base+"/podweb/"+appID+"/"+otherID; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if err := os.Remove(m.point + "/" + base + "/podweb/" + appID + "/" + otherID); err != nil {
			t.Fatal(err)
		}
		if got := find(below); got != fs.ErrNotExist.Error() {
			t.Errorf("a removed cgroup: got %s", got)
		}
		newer := makeCgroup(t, m, base+sep+"podother")
		if got, want := find(newer), "/"+base+"/podother"; got != want {
			t.Errorf("a new cgroup: got %s, want %s", got, want)
		}
	})
	if got := c.id("/" + base + "/podweb/" + appID); got != app {
		t.Errorf("the ID of a path: got %d, want %d", got, app)
	}
}

// A walk that another query waits for ends with its context.
func TestWaitForAReading(t *testing.T) {
	onNode(t, false, func(n *node) {
		reads := 0
		p := newPaced(func() int { reads++; <-time.After(time.Second); return reads })
		ctx, cancel := context.WithCancelCause(n.t.Context())
		read := func(at time.Time, patient bool) int {
			n.t.Helper()
			value, err := p.since(ctx, at, patient)
			if err != nil {
				n.t.Fatal(err)
			}
			return value
		}
		if got := read(time.Now(), false); got != 1 {
			n.t.Errorf("the first reading: got %d", got)
		}
		began := time.Now()
		if got := read(began, false); got != 1 || time.Since(began) != 0 {
			n.t.Errorf("in the pause: got %d after %v", got, time.Since(began))
		}
		second := make(chan int)
		go func() { second <- read(began, true) }()
		if got := read(began, true); got != 2 || time.Since(began) != 11*time.Second {
			n.t.Errorf("after the pause: got %d after %v", got, time.Since(began))
		}
		if got := <-second; got != 2 {
			n.t.Errorf("of two queries: got %d", got)
		}
		left := errors.New("it left")
		go func() { <-time.After(time.Second); cancel(left) }()
		if _, err := p.since(ctx, time.Now(), true); !errors.Is(err, left) {
			n.t.Errorf("got %v", err)
		}
	})
}
