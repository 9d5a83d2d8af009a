package daemon

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// memoryLimits returns GOMEMLIMIT and the memory limit of a file in deploy.
func memoryLimits(t *testing.T, file, gomemlimit, limit string) (string, resource.Quantity) {
	t.Helper()
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	var found [2]string
	for i, expression := range []string{gomemlimit, limit} {
		match := regexp.MustCompile(expression).FindStringSubmatch(string(data))
		if match == nil {
			t.Fatalf("%s has no %s", file, expression)
		}
		found[i] = match[1]
	}
	return found[0], resource.MustParse(found[1])
}

// worst are the manifests that take the most memory.
func worst(version int) map[string]string {
	const megabyte = 1 << 20
	env := make([]string, 27_000)
	for i := range env {
		env[i] = fmt.Sprintf(`{"name":"E%05d","value":"<<"}`, i) // < takes six bytes in the JSON of Go
	}
	pod := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"big"},"spec":{"containers":[{"name":"c","image":"i:%d","env":[%s]}]}}`,
		version, strings.Join(env, ","))
	return map[string]string{
		"a large pod":               pod,
		"a large pod with comments": strings.Repeat("# a comment\n", 8*megabyte/12) + pod,
		"YAML of empty objects":     fmt.Sprintf("a%d: [{}%s]\n", version, strings.Repeat(",{}", 29*megabyte/10/3)),
		"YAML of numbers":           fmt.Sprintf("a%d: [1%s]\n", version, strings.Repeat(",1", 29*megabyte/10/2)),
		"YAML of 10 MiB":            fmt.Sprintf("a%d: [{}%s]\n", version, strings.Repeat(",{}", 10*megabyte/3-10)),
		"JSON of 10 MiB":            fmt.Sprintf(`{"a%d":[{}%s]}`, version, strings.Repeat(",{}", 10*megabyte/3-10)),
	}
}

// Within the memory of deploy, nobody who writes one manifest again and again stops the daemon, also while subscribers do
// not read.
func TestMemoryOfDeploy(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	const edits, readers = 12, 20
	for _, deployed := range []struct{ file, gomemlimit, limit string }{
		{"kubernetes/base/daemonset.yaml", `name: GOMEMLIMIT.*\n\s*value: (\S+)`, `limits:\n\s*memory: (\S+)`},
		{"systemd/podconfigd.service", `GOMEMLIMIT=(\S+)`, `MemoryMax=(\S+)`},
	} {
		gomemlimit, limit := memoryLimits(t, deployed.file, deployed.gomemlimit, deployed.limit)
		for name := range worst(0) {
			t.Run(deployed.file+", "+name, func(t *testing.T) {
				dir := testutil.ShortDir(t)
				cmd := exec.Command(e2e.Binary, "--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", filepath.Join(dir, "s"),
					"--state-dir", filepath.Join(dir, "state"), "--hostname-override", "node1")
				cmd.Env = append(os.Environ(), "GOMEMLIMIT="+gomemlimit)
				d := e2e.StartCommand(t, dir, cmd)
				d.Mkdir(t)
				testutil.Until(t, "the daemon is ready", func() bool { code, _, _ := d.Ask(t, "/readyz"); return code == 200 })
				for range readers {
					subscribeAndDoNotRead(t, d)
				}
				for version := range edits {
					d.PutFile(t, "big", worst(version)[name])
					decoded := fmt.Sprintf("\npodconfigd_file_source_decodes_total{source=\"file\"} %d\n", version+1)
					testutil.Until(t, "the manifest is decoded", func() bool { return strings.Contains(metrics(t, d), decoded) })
				}
				if used := mostResident(t, cmd.Process.Pid); used > limit.Value() {
					t.Errorf("%d bytes, of %s", used, &limit)
				} else {
					t.Logf("%d MiB of %s", used>>20, &limit)
				}
			})
		}
	}
}

func subscribeAndDoNotRead(t *testing.T, d *e2e.Daemon) {
	t.Helper()
	conn, err := net.Dial("unix", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET /v1alpha1/updates HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
}

// mostResident returns the most memory in bytes that a process has had.
func mostResident(t *testing.T, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(data)
	if match == nil {
		t.Fatalf("no VmHWM in %s", data)
	}
	kilobytes, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
