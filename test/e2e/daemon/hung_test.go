package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A source whose file system hangs is degraded, keeps its pods, and can be removed by a reload. The
// others go on, and the daemon ends as usual.
func TestAHungFileSystem(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	x := filepath.Join(dir, "x")
	file := filepath.Join(dir, "config.yaml")
	configure := func(lines string) {
		t.Helper()
		content := "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\n" +
			"hostnameOverride: node1\nsocket: " + dir + "/s\nstaticPodPath: " + dir + "/manifests\n" + lines
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	manifest := []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: x1}\nspec: {containers: [{name: c, image: i}]}\n")
	if err := errors.Join(os.Mkdir(x, 0o755), os.WriteFile(filepath.Join(x, "x1.yaml"), manifest, 0o644)); err != nil {
		t.Fatal(err)
	}
	configure("fileSources: [{name: x, path: " + x + "}]\n")
	d := e2e.StartCommand(t, dir, exec.Command(e2e.Binary, "--config="+file))
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)

	testutil.Hang(t, x)
	logged(t, d, "takes longer than 10s: the file system may not answer")
	status, err := d.Client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range status.Sources {
		if hung := source.Name == "file:x"; source.Degraded != hung || hung && source.Pods != 1 {
			t.Errorf("got %+v", source)
		}
	}
	d.Put(t, "a", "1")
	changes(t, s, "ADD file a-node1")

	configure("")
	if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	changes(t, s, "REMOVE file:x x1-node1")
	configure("fileSources: [{name: x, path: " + x + "}]\n")
	if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "the source is there again", func() bool {
		status, err := d.Client.Status(t.Context())
		return err == nil && len(status.Sources) == 2
	})
	if took, err := d.End(t, syscall.SIGTERM); err != nil || took > 30*time.Second {
		t.Errorf("the daemon ended in %v: %v\n%s", took, err, strings.TrimSpace(d.Log.String()))
	}
}
