package script

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// daemon is a running podconfigd.
type daemon struct {
	cmd *exec.Cmd
	log *testutil.Buffer
	// ended is closed when the process has ended. err is its exit error.
	ended chan struct{}
	err   error
}

// cmdDaemon starts podconfigd, waits until it serves, and reads its stream.
func (sc *scenario) cmdDaemon(in *invocation) error {
	if sc.daemon != nil {
		return errors.New("a daemon is running already")
	}
	if err := sc.settleStreams(); err != nil {
		return err
	}
	path, unready, args := sc.abs("m"), false, in.args
	var argv []string
options:
	for len(args) > 0 {
		switch {
		case args[0] == "-unready":
			unready, args = true, args[1:]
		case args[0] == "-path" && len(args) > 1:
			path, args = args[1], args[2:]
		case args[0] == "-via" && len(args) > 1:
			argv, args = strings.Fields(args[1]), args[2:]
		default:
			break options
		}
	}
	sc.path = sc.abs(path)
	// With a relist interval of an hour, changes are found by inotify, not by listing.
	argv = append(argv, "podconfigd", "--pod-manifest-path="+path, "--hostname-override=node1",
		"--socket="+sc.socket, "--file-check-frequency=1h", "-v=4")
	// The daemon looks for the address of the node in the background. The node with an address has a revision.
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--config") }) {
		argv = append(argv, "--node-ip=192.0.2.1")
	}
	d, err := sc.start(in, append(argv, args...))
	if err != nil {
		return err
	}
	sc.daemon = d
	if err := sc.served(!unready); err != nil {
		return err
	}
	query := make(url.Values)
	if unready { // after restored pods, the first update leaves out revisions, as a selection does
		query.Set("source", "file")
	}
	s, err := sc.follow("", query)
	if err != nil {
		return err
	}
	status, err := sc.client.Status(sc.tb.Context())
	if err != nil {
		return err
	}
	in.ts.Setenv("DAEMON_PID", strconv.Itoa(d.cmd.Process.Pid))
	in.ts.Setenv("INSTANCE", status.Instance)
	in.ts.Setenv("START", strconv.FormatInt(status.Compacted, 10))
	in.ts.Setenv("REVISION", strconv.FormatInt(s.revision(), 10))
	return nil
}

// start starts the process in the same way as the script's own commands.
func (sc *scenario) start(in *invocation, argv []string) (*daemon, error) {
	program := argv[0]
	if program == "podconfigd" {
		program = filepath.Join(binDir, program) // use the script's PATH, not this process's
	}
	d := &daemon{cmd: exec.Command(program, argv[1:]...), log: new(testutil.Buffer), ended: make(chan struct{})}
	d.cmd.Dir = sc.workDir
	for _, name := range []string{"PATH", "HOME", "GORACE", "GOTRACEBACK"} {
		d.cmd.Env = append(d.cmd.Env, name+"="+in.ts.Getenv(name))
	}
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(d.ended)
		d.err = d.cmd.Wait()
	}()
	sc.tb.Cleanup(func() {
		if sc.tb.Failed() {
			sc.tb.Logf("%s said:\n%s", strings.Join(argv, " "), d.log)
		}
	})
	return d, nil
}

// served waits until the daemon answers and, if requested, has seen its source.
func (sc *scenario) served(ready bool) error {
	return poll(func() error {
		if isClosed(sc.daemon.ended) {
			return fmt.Errorf("the daemon ended: %w", errors.Join(errFinal, sc.daemon.err))
		}
		status, err := sc.client.Status(sc.tb.Context())
		if err == nil && ready && !status.Ready {
			err = errors.New("the daemon is not ready")
		}
		return err
	})
}

// cmdShutdown ends the daemon.
func (sc *scenario) cmdShutdown(in *invocation) error {
	kill := len(in.args) == 1 && in.args[0] == "-kill"
	if in.neg || len(in.args) > 0 && !kill {
		return errUsage
	}
	if sc.daemon == nil {
		return errors.New("no daemon is running")
	}
	return sc.shutdown(kill)
}

// shutdown ends the daemon, if it runs. Unless it is killed, it must exit with 0, end the
// streams and remove its socket.
func (sc *scenario) shutdown(kill bool) error {
	d := sc.daemon
	if d == nil {
		return nil
	}
	sc.daemon = nil
	signal := syscall.SIGTERM
	if kill {
		signal = syscall.SIGKILL
	}
	if err := d.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-d.ended:
	case <-time.After(testutil.Patience):
		_ = d.cmd.Process.Signal(syscall.SIGQUIT) // to log its goroutines
		<-d.ended
		return fmt.Errorf("the daemon did not end within %v of a %v", testutil.Patience, signal)
	}
	for _, s := range sc.streams {
		<-s.ended
	}
	if kill {
		return nil
	}
	if d.err != nil {
		return fmt.Errorf("the daemon did not end well: %w", d.err)
	}
	if _, err := os.Lstat(sc.socket); err == nil {
		return errors.New("the daemon left its socket behind")
	}
	return nil
}
