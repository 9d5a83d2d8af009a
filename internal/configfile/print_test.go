package configfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/pkg/daemon"
)

func printed(t *testing.T, c *Configuration) string {
	t.Helper()
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const full = header + `
staticPodPath: /m
fileCheckFrequency: 5s
fileSources:
- {name: a, path: /b}
staticPodURL: https://user:pass@example.com/pods?token=s3cret
staticPodURLHeader:
  authorization: [Bearer s3cret]
httpSources:
- {name: b, url: "http://x/?s3cret", header: {X: [s3cret]}, tokenFile: /t}
removalBrake: 5
listen: [unix:///c]
access:
- users: [prometheus]
  labelSelector: app in (web,db)
  view: redacted
  annotations: [a/b]
- view: none
logging: {verbosity: 2}
`

func TestPrint(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run")
	dir := write(t, map[string]string{"c.yaml": full, "d/x.conf": header + "fileCheckFrequency: 6s\nremovalBrake: null\nlogging: {format: json}\n"})
	loaded, err := load(Files{Config: filepath.Join(dir, "c.yaml"), ConfigDir: filepath.Join(dir, "d")},
		flags(func(c *daemon.Config) { c.Socket = new("/run/s") }, "socket", "v"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(printed(t, loaded), dir+"/", "")
	golden := filepath.Join("testdata", "print.yaml")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("to accept this, set UPDATE=1:\n%s", diff)
	}
	if strings.Contains(got, "s3cret") || strings.Contains(got, "pass") {
		t.Error("a secret is printed")
	}
}

// What is printed is a file that gives the same configuration.
func TestPrintedConfigurationCanBeLoaded(t *testing.T) {
	data := strings.NewReplacer("user:pass@", "", "?token=s3cret", "", "/?s3cret", "", "[Bearer s3cret]", "[REDACTED]", "[s3cret]", "[REDACTED]").Replace(full)
	for _, data := range []string{data, header + "kubeconfig: \"yes\"\nhostnameOverride: '0660'\nsocketGroup: \"5\"\nsocketMode: '0'\nremovalBrake: 50%\nlisten: ['unix:///a b: c', 'unix:///#']\n"} {
		dir := write(t, map[string]string{"c.yaml": data})
		first, err := load(Files{Config: filepath.Join(dir, "c.yaml")}, flags(nil))
		if err != nil {
			t.Fatal(err)
		}
		again := filepath.Join(dir, "again.yaml")
		if err := os.WriteFile(again, []byte(printed(t, first)), 0o600); err != nil {
			t.Fatal(err)
		}
		second, err := load(Files{Config: again}, flags(nil))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.PodConfigdConfiguration, second.PodConfigdConfiguration); diff != "" {
			t.Error(diff)
		}
	}
}
