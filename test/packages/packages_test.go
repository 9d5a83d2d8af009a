// Package packages installs the packages of "make packages" on a machine with systemd, and upgrades,
// removes and purges them.
package packages

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/machine"
	"github.com/podconfigd/podconfigd/test/testutil"
)

const (
	configPath = "/etc/podconfigd/config.yaml"
	export     = "podconfigctl-export.service"
	// edited is what an administrator adds to the configuration file.
	edited = "# an edited file\n"
)

// files are some files of the packages.
var files = []string{
	"/usr/bin/podconfigd", "/usr/bin/podconfigctl", "/usr/lib/systemd/system/podconfigd.service", "/usr/lib/systemd/system/podconfigd.socket",
	"/usr/lib/systemd/system/podconfigctl-export.service",
	"/usr/share/man/man1/podconfigd.1.gz", "/usr/share/man/man1/podconfigctl.1.gz", "/usr/share/bash-completion/completions/podconfigd",
	"/usr/share/fish/vendor_completions.d/podconfigd.fish", "/usr/share/doc/podconfigd/examples/podconfigd.yaml",
}

// build makes the packages of two versions into a directory. The later one has another
// configuration file.
func build(t *testing.T) (out string) {
	t.Helper()
	program := testutil.MustProgram(t, ".", "./cmd/podconfigd")
	nfpm := testutil.MustProgram(t, "tools/packages", "github.com/goreleaser/nfpm/v2/cmd/nfpm")
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	out = t.TempDir()
	man := t.TempDir()
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, name := range []string{"podconfigd", "podconfigctl"} { // TestManPages writes all
		write(filepath.Join(man, name+".1"), ".TH "+name+" 1\n")
	}
	changed := filepath.Join(out, "config.yaml")
	write(changed, read("deploy/packages/config.yaml")+"# a later default\n")
	config := filepath.Join(out, "nfpm.yaml")
	write(config, strings.Replace(read("deploy/packages/nfpm.yaml"), "deploy/packages/config.yaml", changed, 1))
	arch, err := exec.CommandContext(t.Context(), "dpkg", "--print-architecture").Output()
	if err != nil {
		t.Fatal(err)
	}
	for version, config := range map[string]string{"v1.2.3": "deploy/packages/nfpm.yaml", "v1.3.0": config} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "hack", "packages.sh"), nfpm, out, strings.TrimSpace(string(arch)))
		cmd.Env = append(os.Environ(), "PROGRAM="+program, "CTL="+testutil.MustProgram(t, ".", "./cmd/podconfigctl"), "MAN="+man, "VERSION="+version, "CONFIG="+config)
		if log, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("making the packages: %v\n%s", err, log)
		}
	}
	return out
}

func TestPackages(t *testing.T) {
	t.Parallel()
	machine.Supported(t)
	out := build(t)
	for extension, test := range map[string]func(*testing.T, node){"deb": testDebian, "rpm": testRPM} {
		t.Run(extension, func(t *testing.T) {
			t.Parallel()
			n := node{machine.Start(t)}
			n.Copy(t, only(t, out, "*1.2.3*."+extension), "/tmp/first")
			n.Copy(t, only(t, out, "*1.3.0*."+extension), "/tmp/second")
			test(t, n)
		})
	}
}

// only returns the only file of a pattern.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// node is a machine on which packages are installed.
type node struct {
	*machine.Machine
}

func (n node) expectState(t *testing.T, what, want string) {
	t.Helper()
	for _, unit := range []string{"podconfigd.socket", "podconfigd.service"} {
		if got := n.Show(t, unit, what); got != want {
			t.Errorf("%s of %s is %q, want %q", what, unit, got, want)
		}
	}
}

// expectFiles checks whether the files of the packages are there.
func (n node) expectFiles(t *testing.T, there bool) {
	t.Helper()
	for _, path := range files {
		if _, err := os.Lstat(n.Path(path)); (err == nil) != there {
			t.Errorf("%s is there: %v, want %v", path, err == nil, there)
		}
	}
}

// serves checks that podconfigd answers on the socket, which belongs to the group.
func (n node) serves(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, func() error { // it fails until the pods of the directory are there
		out, err := n.Try("podconfigctl", "status")
		if err == nil && !strings.Contains(out, "node1") {
			err = errors.New(out)
		}
		return err
	})
	if owner := n.Run(t, "stat", "--format=%U:%G %a", "/run/podconfigd/podconfigd.sock"); owner != "root:podconfigd 660" {
		t.Errorf("the socket is %s", owner)
	}
}

// edit changes the configuration file.
func (n node) edit(t *testing.T) {
	t.Helper()
	n.Write(t, configPath, n.config(t)+edited)
}

func (n node) config(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(n.Path(configPath))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// kept checks that the configuration file is still the edited one, and that the later default is in
// a file beside it.
func (n node) kept(t *testing.T, beside string) {
	t.Helper()
	if config := n.config(t); !strings.HasSuffix(config, edited) {
		t.Errorf("the configuration file is\n%s", config)
	}
	if data, err := os.ReadFile(n.Path(configPath + beside)); err != nil || !strings.Contains(string(data), "a later default") {
		t.Errorf("%s: %q, %v", beside, data, err)
	}
}

func testDebian(t *testing.T, n node) {
	t.Helper()
	install := func(path string) {
		t.Helper()
		n.Run(t, "dpkg", "--force-confdef", "--force-confold", "--no-triggers", "--install", path)
	}
	install("/tmp/first")
	n.expectFiles(t, true)
	n.expectState(t, "ActiveState", "active")
	n.expectState(t, "UnitFileState", "enabled")
	n.serves(t)

	if state := n.Show(t, export, "UnitFileState"); state != "disabled" {
		t.Errorf("the export is %s", state)
	}
	n.Run(t, "systemctl", "enable", "--now", export)

	n.edit(t)
	before, exporting := n.Show(t, "podconfigd.service", "MainPID"), n.Show(t, export, "MainPID")
	install("/tmp/second")
	if n.Show(t, export, "MainPID") == exporting || n.Show(t, export, "ActiveState") != "active" {
		t.Error("the upgrade did not restart the export")
	}
	n.kept(t, ".dpkg-dist")
	n.expectState(t, "ActiveState", "active")
	if n.Show(t, "podconfigd.service", "MainPID") == before {
		t.Error("the upgrade did not restart the service")
	}
	n.serves(t)
	if log := n.Log("podconfigd.socket"); strings.Contains(log, "Closed") {
		t.Errorf("the upgrade closed the socket:\n%s", log)
	}

	// What the administrator disabled stays disabled.
	n.Run(t, "systemctl", "disable", "podconfigd.service", "podconfigd.socket")
	install("/tmp/second")
	n.expectState(t, "UnitFileState", "disabled")

	n.Run(t, "dpkg", "--no-triggers", "--remove", "podconfigd")
	n.expectFiles(t, false)
	n.expectState(t, "ActiveState", "inactive")
	if config := n.config(t); !strings.HasSuffix(config, edited) {
		t.Errorf("after the removal, the configuration file is\n%s", config)
	}
	if _, err := os.Stat(n.Path("/var/lib/podconfigd/lock")); err != nil {
		t.Errorf("the removal took the state: %v", err)
	}
	install("/tmp/second") // the configuration is still there
	if config := n.config(t); !strings.HasSuffix(config, edited) {
		t.Errorf("after the second installation, the configuration file is\n%s", config)
	}
	n.Run(t, "dpkg", "--no-triggers", "--purge", "podconfigd")
	n.expectFiles(t, false)
	for _, path := range []string{"/etc/podconfigd", "/var/lib/podconfigd", "/var/lib/podconfigctl", "/run/podconfigd"} {
		if _, err := os.Lstat(n.Path(path)); !os.IsNotExist(err) {
			t.Errorf("after the purge, %s: %v", path, err)
		}
	}
	n.expectNoLinks(t)
}

// expectNoLinks checks that nothing is left of the enabled units.
func (n node) expectNoLinks(t *testing.T) {
	t.Helper()
	if links := n.Run(t, "find", "/etc/systemd/system", "/var/lib/systemd/deb-systemd-helper-enabled", "-name", "podconfig*"); links != "" {
		t.Errorf("the removal left %s", links)
	}
}

func testRPM(t *testing.T, n node) {
	t.Helper()
	rpm := func(args ...string) {
		t.Helper()
		n.Run(t, "rpm", append([]string{"--force-debian", "--nodeps"}, args...)...)
	}
	n.Run(t, "rpm", "--checksig", "--nosignature", "/tmp/first")
	// As the presets of Fedora, these enable nothing.
	n.Write(t, "/etc/systemd/system-preset/99.preset", "disable *\n")
	rpm("--install", "/tmp/first")
	n.expectFiles(t, true)
	n.expectState(t, "UnitFileState", "disabled")
	n.expectState(t, "ActiveState", "inactive")
	n.Run(t, "systemctl", "enable", "--now", "podconfigd.socket", "podconfigd.service")
	n.serves(t)
	n.Run(t, "systemctl", "enable", "--now", export)

	n.edit(t)
	before, exporting := n.Show(t, "podconfigd.service", "MainPID"), n.Show(t, export, "MainPID")
	rpm("--upgrade", "/tmp/second")
	if n.Show(t, export, "MainPID") == exporting || n.Show(t, export, "ActiveState") != "active" {
		t.Error("the upgrade did not restart the export")
	}
	n.kept(t, ".rpmnew")
	n.expectState(t, "ActiveState", "active")
	n.expectState(t, "UnitFileState", "enabled")
	if n.Show(t, "podconfigd.service", "MainPID") == before {
		t.Error("the upgrade did not restart the service")
	}
	n.serves(t)

	rpm("--erase", "podconfigd")
	n.expectFiles(t, false)
	n.expectState(t, "ActiveState", "inactive")
	if data, err := os.ReadFile(n.Path(configPath + ".rpmsave")); err != nil || !strings.HasSuffix(string(data), edited) {
		t.Errorf("the edited configuration file: %q, %v", data, err)
	}
	n.expectNoLinks(t)
}
