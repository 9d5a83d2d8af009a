package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
)

// BenchmarkLookupHandle measures lookups of running sandboxes by each handle over HTTP, one after the other on one connection. Each
// sandbox has a process with a network namespace of its own. by=containerID is what the others are compared with. With peer=CRI,
// containerd is asked for the status of containers by ID. The machine needs cgroup v2, also beside cgroup v1.
func BenchmarkLookupHandle(b *testing.B) {
	n := newLookupNode(b, lookupPods)
	mount, node := cgroup2(b), client.New(n.socket)
	defer node.CloseIdleConnections()
	queries := make(map[string][]string)
	add := func(name string, value any) {
		queries[name] = append(queries[name], name+"="+url.QueryEscape(fmt.Sprint(value)))
	}
	for i := range lookupPods {
		pid := n.runtime.SandboxPID(b, n.sandboxes[i])
		cgroup := cgroupOf(b, mount, pid)
		pod, err := node.Lookup(b.Context(), client.LookupQuery{ContainerID: n.sandboxes[i]})
		if err != nil {
			b.Fatal(err)
		}
		add("containerID", n.sandboxes[i])
		add("pid", pid)
		add("cgroupID", inode(b, cgroup))
		add("netns", inode(b, fmt.Sprintf("/proc/%d/ns/net", sleepIn(b, cgroup))))
		add("mntns", inode(b, fmt.Sprintf("/proc/%d/ns/mnt", pid)))
		add("pidns", inode(b, fmt.Sprintf("/proc/%d/ns/pid", pid)))
		add("logPath", fmt.Sprintf("/var/log/pods/%s_%s_%s/container-0/0.log", pod.Pods[0].Namespace, pod.Pods[0].Name, pod.Pods[0].UID))
	}
	for _, name := range []string{"containerID", "pid", "cgroupID", "netns", "mntns", "pidns", "logPath"} {
		b.Run("by="+name, func(b *testing.B) {
			conn, err := net.Dial("unix", n.socket)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			measureLookups(b, n.process, func(i int) error {
				if _, err := io.WriteString(conn, lookupRequest(queries[name][i])); err != nil {
					return err
				}
				return readLookup(answers)
			})
		})
	}
	b.Run("peer=CRI", func(b *testing.B) { measureLookups(b, &process{pid: n.runtime.Pid()}, lookupCRI(b, n)) })
}

// cgroup2 returns the mount of cgroup v2.
func cgroup2(b *testing.B) string {
	b.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	b.Skip("cgroup v2 is not mounted")
	return ""
}

// cgroupOf returns the directory of the cgroup of version 2 of a process.
func cgroupOf(b *testing.B, mount string, pid int) string {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found && path != "/" {
			return filepath.Join(mount, path)
		}
	}
	b.Skip("the runtime does not use cgroup v2")
	return ""
}

// sleepIn starts a process with its own network in a cgroup until the benchmark ends.
func sleepIn(b *testing.B, cgroup string) (pid int) {
	b.Helper()
	dir, err := os.Open(cgroup)
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

var errNoInode = errors.New("the file has no inode")

func inode(b *testing.B, path string) uint64 {
	b.Helper()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		b.Fatal(errNoInode)
	}
	return stat.Ino
}
