package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestSocketsThatAreRemoved checks that the daemon creates its sockets again after
// somebody removes them, or their directory.
func TestSocketsThatAreRemoved(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	run := filepath.Join(dir, "run")
	socket, podsSocket := filepath.Join(run, "s"), filepath.Join(run, "pods")
	d := e2e.Start(t, dir, "--socket", socket, "--pods-api-socket", podsSocket)
	d.Socket, d.Client = socket, client.New(socket)
	d.Mkdir(t)
	before := d.Watch(t, client.Options{})
	e2e.SyncUp(t, before)
	d.Put(t, "a", "image")
	before.Expect(t, "ADD a-node1")
	for _, remove := range []func() error{
		func() error { return errors.Join(os.Remove(socket), os.Remove(podsSocket)) },
		func() error { return errors.Join(os.Rename(run, run+".away"), os.RemoveAll(run+".away")) },
	} {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, func() error {
			_, err := d.Client.Status(t.Context())
			return err
		})
		testutil.Eventually(t, func() error {
			conn, err := grpc.NewClient("unix://"+podsSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = podsv1alpha1.NewPodsClient(conn).ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{})
			return err
		})
		if info, err := os.Lstat(socket); err != nil || info.Mode() != fs.ModeSocket|0o660 {
			t.Errorf("the socket that is made again: %v, %v", info, err)
		}
	}
	for _, path := range []string{socket, podsSocket} {
		testutil.Until(t, "two log lines name "+path, func() bool {
			return strings.Count(d.Log.String(), `created it again" socket="`+path+`"`) == 2
		})
	}
	d.Put(t, "b", "image") // the earlier stream continues
	before.Expect(t, "ADD b-node1")
	if _, err := d.End(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(run + "/*"); len(left) > 1 || len(left) == 1 && left[0] != socket+".revision" {
		t.Errorf("it left %v", left)
	}
}

// TestAnotherDaemonTookTheSocket checks that two daemons do not replace each other's
// socket.
func TestAnotherDaemonTookTheSocket(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	first := e2e.Start(t, dir)
	first.Mkdir(t)
	instance := func() string {
		status, err := first.Client.Status(t.Context())
		if err != nil {
			return ""
		}
		return status.Instance
	}
	testutil.Until(t, "the first answers", func() bool { return instance() != "" })
	mine := instance()
	// It can't use the path as long as the first daemon exists.
	if err := first.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(first.Socket); err != nil {
		t.Fatal(err)
	}
	second := e2e.Start(t, dir)
	testutil.Until(t, "the second answers", func() bool { return instance() != "" })
	theirs := instance()
	if err := first.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "the first says why it can't have the socket", func() bool {
		return strings.Contains(first.Log.String(), "another process is serving it")
	})
	if now := instance(); now != theirs || now == mine {
		t.Errorf("%s answers, the first is %s, the second %s", now, mine, theirs)
	}
	if _, err := second.End(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	testutil.Until(t, "the first has it again", func() bool { return instance() == mine })
	if n := strings.Count(first.Log.String(), "another process is serving it"); n != 1 {
		t.Errorf("it said %d times that the socket is taken", n)
	}
}
