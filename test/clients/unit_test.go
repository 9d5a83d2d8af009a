package clients

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/machine"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// The units of podconfigd and of the export run with systemd as PID 1, beside a Collector. The export goes on after a kill, and with a
// drop-in for another address.
func TestTheUnitOfTheExport(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the Collector")
	}
	t.Parallel()
	m := machine.Start(t)
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	m.Copy(t, binary, "/usr/bin/podconfigd")
	m.Copy(t, ctl, "/usr/bin/podconfigctl")
	m.Copy(t, installed(t, "otelcol"), "/usr/bin/otelcol")
	for _, unit := range []string{"podconfigd.service", "podconfigd.socket", "podconfigctl-export.service"} {
		m.Copy(t, filepath.Join(root, "deploy", "systemd", unit), "/etc/systemd/system/"+unit)
	}
	m.Copy(t, filepath.Join(root, "deploy", "systemd", "sysusers.conf"), "/etc/sysusers.d/podconfigd.conf")
	m.Run(t, "systemd-sysusers")
	m.Copy(t, filepath.Join(root, "deploy", "packages", "config.yaml"), "/etc/podconfigd/config.yaml")
	config, err := os.ReadFile("testdata/otelcol-file.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m.Write(t, "/etc/otelcol.yaml", string(config))
	m.Write(t, "/etc/systemd/system/otelcol.service", "[Service]\nExecStart=/usr/bin/otelcol --config /etc/otelcol.yaml\nRestart=always\n")
	m.Run(t, "systemctl", "daemon-reload")
	m.Run(t, "systemctl", "start", "otelcol.service", "podconfigd.socket")
	arrives := func(name string) {
		t.Helper()
		m.Write(t, "/etc/kubernetes/manifests/"+name+".yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: "+name+"}\nspec: {containers: [{name: c, image: i}]}\n")
		testutil.Eventually(t, func() error {
			records, err := os.ReadFile(m.Path("/var/log/podconfigd.json"))
			if err == nil && !strings.Contains(string(records), `"podconfigd.pod.add"`) || !strings.Contains(string(records), name+"-node1") {
				err = errors.New("there is no record of " + name + ": " + m.Log("podconfigctl-export.service"))
			}
			return err
		})
	}

	m.Run(t, "systemctl", "enable", "--now", "podconfigctl-export.service")
	arrives("web")
	m.Run(t, "systemctl", "kill", "--signal=KILL", "podconfigctl-export.service")
	arrives("after-a-kill")
	m.Write(t, "/etc/otelcol.yaml", strings.ReplaceAll(string(config), ":4317", ":14317"))
	m.Copy(t, "testdata/export.conf", "/etc/systemd/system/podconfigctl-export.service.d/override.conf")
	m.Run(t, "systemctl", "daemon-reload")
	m.Run(t, "systemctl", "restart", "otelcol.service", "podconfigctl-export.service")
	arrives("another-address")
	if out := m.Run(t, "stat", "--format=%a", "/var/lib/podconfigctl/export.json"); strings.TrimSpace(out) != "600" {
		t.Errorf("the mode of the state file is %s", out)
	}
	if records, err := os.ReadFile(m.Path("/var/log/podconfigd.json")); err != nil || strings.Contains(string(records), "podconfigd.gap") {
		t.Errorf("there is a gap, or %v:\n%s", err, records)
	}
	m.Run(t, "systemctl", "stop", "podconfigctl-export.service")
	if result := m.Show(t, "podconfigctl-export.service", "Result"); result != "success" {
		t.Errorf("the result of the unit is %s", result)
	}
}
