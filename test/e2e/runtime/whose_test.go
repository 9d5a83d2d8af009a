package runtime

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestWhose runs the example that prints the container of each program that starts.
func TestWhose(t *testing.T) {
	t.Parallel()
	testutil.Long(t)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skip("the kernel has no process connector")
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	program := testutil.MustProgram(t, ".", "./examples/whose")
	for _, name := range components.EachContainerd() {
		t.Run(name, func(t *testing.T) {
			r := components.StartRuntime(t, name)
			dir := testutil.ShortDir(t)
			(&e2e.Daemon{Dir: dir}).Mkdir(t)
			d := e2e.Start(t, dir, "--container-runtime-endpoint", "unix://"+r.Socket)
			pods := d.Watch(t, client.Options{})
			e2e.SyncUp(t, pods)
			d.Put(t, "web", components.Image)
			pods.Expect(t, "ADD web-node1")
			uid := uid(t, d, "web-node1")

			cmd := exec.CommandContext(t.Context(), program)
			cmd.Env = append(cmd.Environ(), client.SocketEnv+"="+d.Socket)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			log := new(testutil.Buffer)
			cmd.Stderr = log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines, done := make(chan string, 1000), make(chan struct{})
			go func() {
				defer close(done)
				for scanner := bufio.NewScanner(out); scanner.Scan(); {
					lines <- scanner.Text()
				}
			}()
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				<-done
				_ = cmd.Wait()
			})

			testutil.Until(t, "the example listens", func() bool {
				sockets, err := os.ReadFile("/proc/net/netlink")
				return err == nil && regexp.MustCompile(fmt.Sprintf(`(?m)^\S+ 11 +%d +00000001 `, cmd.Process.Pid)).Match(sockets)
			})
			sandbox := r.Sandbox(t, "web-node1", uid)
			c := r.Create(t, sandbox, "web-node1", uid, "app", "pause")
			r.StartContainer(t, c)
			want := []string{"default/web-node1/", "default/web-node1/app"} // the sandbox has no name
			for late := time.After(testutil.Patience); len(want) > 0; {
				select {
				case line := <-lines:
					want = slices.DeleteFunc(want, func(w string) bool { return w == line })
				case <-late:
					t.Fatalf("%q were not printed; %s", want, log)
				}
			}
		})
	}
}
