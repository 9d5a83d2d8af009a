package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
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
	(&daemon{dir: dir}).mkdir(t)
	manifest := []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: x1}\nspec: {containers: [{name: c, image: i}]}\n")
	if err := errors.Join(os.Mkdir(x, 0o755), os.WriteFile(filepath.Join(x, "x1.yaml"), manifest, 0o644)); err != nil {
		t.Fatal(err)
	}
	configure("fileSources: [{name: x, path: " + x + "}]\n")
	d := startCommand(t, dir, exec.Command(binary, "--config="+file))
	s := d.watch(t, client.Options{})
	syncUp(t, s)

	testutil.Hang(t, x)
	d.logged(t, "takes longer than 10s: the file system may not answer")
	status, err := d.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range status.Sources {
		if hung := source.Name == "file:x"; source.Degraded != hung || hung && source.Pods != 1 {
			t.Errorf("got %+v", source)
		}
	}
	d.put(t, "a", "1")
	s.changes(t, "ADD file a-node1")

	configure("")
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.changes(t, "REMOVE file:x x1-node1")
	configure("fileSources: [{name: x, path: " + x + "}]\n")
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "the source is there again", func() bool {
		status, err := d.client.Status(t.Context())
		return err == nil && len(status.Sources) == 2
	})
	if took, err := d.end(t, syscall.SIGTERM); err != nil || took > 5*time.Second {
		t.Errorf("the daemon ended in %v: %v\n%s", took, err, strings.TrimSpace(d.log.String()))
	}
}
