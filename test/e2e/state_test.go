package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// again kills the daemon and starts it again after the change.
func (d *daemon) again(t *testing.T, change func(), args ...string) *daemon {
	t.Helper()
	d.signal(t, syscall.SIGKILL)
	_ = d.cmd.Wait() // killed
	change()
	return start(t, d.dir, args...)
}

// fat returns a manifest that needs more than a page of a disk.
func fat(name, version string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: uid-%[1]s, annotations: {v: %q, fat: %q}}\n"+
		"spec: {containers: [{name: c, image: i}]}\n", name, version, strings.Repeat("x", 64<<10))
}

// stored waits until the status says whether updates are stored.
func (d *daemon) stored(t *testing.T, want bool) *v1alpha1.Status {
	t.Helper()
	var status *v1alpha1.Status
	testutil.Until(t, fmt.Sprintf("stored is %t", want), func() bool {
		var err error
		if status, err = d.client.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		return status.State.Stored == want
	})
	return status
}

// ask returns the status code, the header and the body of an answer.
func (d *daemon) ask(t *testing.T, path string) (code int, header http.Header, body string) {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.socket)
	}, DisableKeepAlives: true}}
	testutil.Eventually(t, func() error { // the daemon may be starting
		resp, err := web.Get("http://podconfigd" + path)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		code, header, body = resp.StatusCode, resp.Header, string(data)
		return err
	})
	return code, header, body
}

func (d *daemon) body(t *testing.T) string {
	t.Helper()
	_, _, body := d.ask(t, "/pods")
	return body
}

// A full disk, or a state directory that is removed, costs subscribers one reset. When
// there is room again, updates are stored again, without a further reset, and survive
// kill -9.
func TestAStateDirectoryThatFails(t *testing.T) {
	full := func(t *testing.T, state string) (mend func()) {
		t.Helper()
		filler := filepath.Join(filepath.Dir(state), "filler")
		if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); err == nil {
			t.Fatal("the disk is not full")
		}
		return func() { _ = os.Remove(filler) }
	}
	removed := func(t *testing.T, state string) (mend func()) {
		t.Helper()
		if err := os.Rename(state, state+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(state, nil, 0o600); err != nil { // so that it can't be created again
			t.Fatal(err)
		}
		return func() { _ = os.Remove(state) }
	}
	for name, fault := range map[string]struct {
		size string
		do   func(t *testing.T, state string) (mend func())
	}{"full": {"2m", full}, "removed": {"64m", removed}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := filepath.Join(testutil.ShortDir(t), "disk")
			if err := os.Mkdir(disk, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+fault.size); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
			args := []string{"--state-dir", filepath.Join(disk, "state")}
			d := &daemon{dir: testutil.ShortDir(t)}
			d.mkdir(t)
			d.putFile(t, "a", fat("a", "0"))
			d = start(t, d.dir, args...)
			s := d.watch(t, client.Options{})
			syncUp(t, s)
			before := d.stored(t, true)

			mend := fault.do(t, filepath.Join(disk, "state"))
			for version, stored := 0, true; stored; version++ { // the log may have room for a few
				status, err := d.client.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				stored = status.State.Stored
				d.putFile(t, "a", fat("a", fmt.Sprint("lost ", version)))
				testutil.Until(t, "the version is there", func() bool { return strings.Contains(d.body(t), fmt.Sprint("lost ", version)) })
			}
			failed := d.stored(t, false)
			if failed.Instance == before.Instance || failed.State.LastError == "" || failed.State.FailedSince == nil {
				t.Errorf("%+v", failed.State)
			}
			if code, _, body := d.ask(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "updates are not stored") {
				t.Errorf("/readyz: %d %s", code, body)
			}
			mend()
			healed := d.stored(t, true)
			d.putFile(t, "a", fat("a", "kept"))
			testutil.Until(t, "the version is there", func() bool { return strings.Contains(d.body(t), "kept") })
			if healed.Instance != failed.Instance {
				t.Error("a further instance began when the disk was mended")
			}

			d = d.again(t, func() { d.putFile(t, "b", fat("b", "0")) }, args...)
			testutil.Until(t, "the subscriber has b", func() bool { return strings.Contains(d.body(t), "uid-b") })
			resets := 0
			for last := ""; last != "b-node1"; {
				u := <-s.updates
				if u.Reset {
					resets++
					t.Log(u.Message)
				}
				if len(u.Pods) > 0 {
					last = u.Pods[0].Name
				}
			}
			if resets != 1 {
				t.Errorf("%d resets, want 1", resets)
			}
		})
	}
}
