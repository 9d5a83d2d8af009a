package docs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nodeEnv has the directory of the node, in the process that is its init.
const nodeEnv = "PODCONFIGD_DOCS_NODE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(nodeEnv); dir != "" {
		if err := initNode(dir); err != nil {
			fmt.Fprintln(os.Stderr, "docs: node:", err)
			os.Exit(1)
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // the test closes it at its end
		return
	}
	os.Exit(m.Run())
}

// initNode gives the namespaces of this process what a node has. /etc has links to the files of the
// machine's /etc, so that a page can add to it.
func initNode(dir string) error {
	etc := filepath.Join(dir, "etc")
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		os.Mkdir(etc, 0o755),
		unix.Mount("/etc", etc, "", unix.MS_BIND|unix.MS_REC, ""),
	); err != nil {
		return err
	}
	for _, path := range []string{"/etc", "/run", "/var/lib"} {
		if err := unix.Mount("tmpfs", path, "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
	}
	names, err := os.ReadDir(etc)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name.Name() == "kubernetes" || name.Name() == "podconfigd" {
			continue
		}
		if err := os.Symlink(filepath.Join(etc, name.Name()), "/etc/"+name.Name()); err != nil {
			return err
		}
	}
	return loopbackUp()
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// node is a process with its own mounts, network and process IDs. When it ends, so do all
// processes on it.
type node struct {
	pid       int
	userSpace bool
}

func startNode(t *testing.T) *node {
	t.Helper()
	const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID
	n := &node{userSpace: os.Geteuid() != 0}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if n.userSpace {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  namespaces | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skip("no namespaces can be had: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	})
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(stdout, ready); err != nil {
		t.Fatal("the node did not start: ", err)
	}
	n.pid = cmd.Process.Pid
	return n
}

// command is a command on the node, in a directory.
func (n *node) command(dir string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(n.pid), "--mount", "--net", "--pid", "--wd=" + dir}
	if n.userSpace {
		enter = append(enter, "--user", "--preserve-credentials")
	}
	return exec.Command("nsenter", append(append(enter, "--"), args...)...)
}
