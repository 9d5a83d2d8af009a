package configfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	stream "github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/test/testutil"
)

const header = "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\n"

// write writes files, and returns their folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		testutil.WriteFile(t, path, data)
	}
	return dir
}

// load loads a configuration without a fault.
func load(files Files, flags *Flags) (*Configuration, error) {
	c, err := Load(files, flags)
	if err == nil {
		err = c.Check()
	}
	return c, err
}

// every returns a period of the configuration.
func every(period time.Duration) *metav1.Duration { return &metav1.Duration{Duration: period} }

// flags returns the flags of a command line with these ones.
func flags(set func(*daemon.Config), changed ...string) *Flags {
	config := daemon.Config{}
	config.Socket = new("/run/s")
	v1alpha1.SetDefaults_PodConfigdConfiguration(&config.PodConfigdConfiguration)
	if set != nil {
		set(&config)
	}
	return &Flags{Config: config, Changed: func(flag string) bool {
		return strings.Contains(" "+strings.Join(changed, " ")+" ", " "+flag+" ")
	}}
}

// A file without fields gives the same configuration as no file.
func TestTheDefaultsAreThoseOfTheDaemon(t *testing.T) {
	dir := write(t, map[string]string{"c": header})
	want := flags(func(c *daemon.Config) { c.Socket, c.InCluster = new(stream.DefaultSocket()), true })
	got, err := load(Files{Config: filepath.Join(dir, "c")}, want)
	if err != nil {
		t.Fatal(err)
	}
	want.TypeMeta = got.TypeMeta
	if diff := cmp.Diff(want.Config, got.Config, cmp.AllowUnexported(daemon.Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestTheOrderOfTheLayers(t *testing.T) {
	dir := write(t, map[string]string{
		"kubelet.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
			"staticPodPath: k\nfileCheckFrequency: 2s\nsyncFrequency: 2s\nhttpCheckFrequency: 0s\ntlsCertFile: ignored\nevictionHard: {a: b}\n",
		"main.yaml":      header + "fileCheckFrequency: 3s\nnodeIP: 192.0.2.1\nlisten: [unix:///a, unix:///b]\nlogging: {verbosity: 3, format: json}\n",
		"d/20.conf":      header + "nodeIP: 192.0.2.3\n",
		"d/10.conf":      header + "nodeIP: 192.0.2.2\nlisten: [unix:///c]\nlogging: {verbosity: 4}\n",
		"d/sub/30.conf":  header + "socketGroup: '5'\nstateDir: state\n",
		"d/ignored.yaml": "}",
	})
	got, err := load(Files{
		KubeletConfig: filepath.Join(dir, "kubelet.yaml"), Config: filepath.Join(dir, "main.yaml"), ConfigDir: filepath.Join(dir, "d"),
	}, flags(func(c *daemon.Config) { c.SocketGroup = "6" }, "socket-group"))
	if err != nil {
		t.Fatal(err)
	}
	want := flags(func(c *daemon.Config) {
		c.StaticPodPath, c.FileCheckFrequency, c.SyncFrequency = filepath.Join(dir, "k"), every(3*time.Second), every(2*time.Second)
		c.NodeIP, c.Listen, c.SocketGroup = "192.0.2.3", []string{"unix:///c"}, "6"
		c.StateDir = filepath.Join(dir, "d", "sub", "state")
		c.Socket, c.TypeMeta = got.Socket, got.TypeMeta
		c.Logging.Verbosity, c.Logging.Format = 4, "json"
	})
	if diff := cmp.Diff(want.Config, got.Config, cmp.AllowUnexported(daemon.Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestEveryFaultHasFileLineAndField(t *testing.T) {
	dir := write(t, map[string]string{"c.yaml": header + `staticPodPth: m
fileCheckFrequency: 5
socketMode: 0660
httpCheckFrequency: 0s
maxSubscribers: 0
httpCheckFrequency: 25h
authentication:
  x509:
    clientCaFile: x
access:
- users: [a]
  view: all
  uids: [-1]
- labelSelector: "a=b=c"
  view: full
staticPodURLHeader:
  A: [b]
plegRelistPeriod: 2m
`})
	_, err := load(Files{Config: filepath.Join(dir, "c.yaml")}, flags(func(c *daemon.Config) { c.StateMaxAge = every(0) }, "state-max-age"))
	if err == nil {
		t.Fatal("accepted")
	}
	want := `c.yaml:3: staticPodPth: unknown field; did you mean staticPodPath?
c.yaml:4: fileCheckFrequency: expected duration such as 1m30s, got number 5
c.yaml:5: socketMode: expected string, got number 0660: put it in quotes
c.yaml:7: maxSubscribers: 0 is too small: expected 1 or more
c.yaml:8: httpCheckFrequency: duplicate key, also in line 6
c.yaml:8: httpCheckFrequency: 25h0m0s is too long: expected 24h0m0s or less
c.yaml:11: authentication.x509.clientCaFile: unknown field; did you mean clientCAFile?
c.yaml:14: access[0].view: unknown view "all": expected full, redacted, metadata or none
c.yaml:15: access[0].uids[0]: expected integer from 0 to 4294967295, got number -1
c.yaml:16: access[1].labelSelector: found '=', expected: ',' or 'end of string'
c.yaml:18: staticPodURLHeader: requires staticPodURL
c.yaml:20: plegRelistThreshold: 3m0s is too short for plegRelistPeriod=2m0s: expected 4m0s or more
no source of pods: set staticPodPath, staticPodURL or kubeconfig
--state-max-age: 0s is too short: expected 1m0s or more`
	if got := strings.ReplaceAll(err.Error(), dir+"/", ""); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

// A fault of an item has the path of the item in the file.
func TestFaultsOfItems(t *testing.T) {
	dir := write(t, map[string]string{"c.yaml": header + `staticPodPath: m
fileSources:
- path: b
- name: B_
  path: c
httpSources:
- name: a
access:
- users: [a, ""]
  view: full
  annotations: [a]
- sources: [x]
`})
	_, err := load(Files{Config: filepath.Join(dir, "c.yaml")}, flags(nil))
	want := `c.yaml:5: fileSources[0].name: required: expected the name of the source
c.yaml:6: fileSources[1].name: "B_" is not a DNS label: expected 1 to 63 lower-case letters, digits and hyphens
c.yaml:9: httpSources[0].url: required: expected the URL of a manifest
c.yaml:11: access[0].users[1]: empty
c.yaml:13: access[0].annotations: only for a rule with the view redacted, not full: remove them or change the view
c.yaml:14: access[1].view: unknown view "": expected full, redacted, metadata or none
c.yaml:14: access[1].sources[0]: unknown source "x": expected file, http, api, file:NAME or http:NAME`
	if got := strings.ReplaceAll(err.Error(), dir+"/", ""); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

func TestFilesThatAreNoConfiguration(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"empty":             {"", "c: empty: expected apiVersion config.podconfigd.dev/v1alpha1, kind PodConfigdConfiguration"},
		"comment":           {"# nothing\n", "c: empty: expected apiVersion"},
		"list":              {"- a\n", "c:1: not an object: expected apiVersion"},
		"no YAML":           {"kind: [\n", "neither YAML nor JSON"},
		"two documents":     {header + "---\n" + header, "c:3: more than one YAML document"},
		"another group":     {"apiVersion: v1\nkind: Pod", `c:1: apiVersion: "v1": expected apiVersion config.podconfigd.dev/v1alpha1`},
		"another kind":      {strings.Replace(header, "PodConfigd", "Kubelet", 1), `c:2: kind: "KubeletConfiguration": expected`},
		"no version":        {"kind: PodConfigdConfiguration\n", "apiVersion: required: expected apiVersion"},
		"too large":         {strings.Repeat("#", 10<<20), "c: expected at most 1048576 bytes"},
		"unknown anchor":    {header + "a: *nowhere\n", "c:3: neither YAML nor JSON: unknown anchor"},
		"infinity":          {header + "maxSubscribers: .inf\n", "c:3: expected a finite number, got +Inf"},
		"negative infinity": {header + "socket: /.inf\nlimits: [1, -.Inf ] # x\n", "c:4: expected a finite number, got -Inf"},
		"not a number":      {header + "maxSubscribers:\n  .nan\n", "c:4: expected a finite number, got NaN"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"c": test.data})
			_, err := load(Files{Config: filepath.Join(dir, "c")}, flags(nil))
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir+"/", ""), test.want) {
				t.Errorf("%.40q: got %v, want %q", test.data, err, test.want)
			}
		})
	}
	for _, data := range []string{
		"\ufeff" + header + "kubeconfig: /k\n",
		strings.ReplaceAll(header+"kubeconfig: /k\n", "\n", "\r\n"),
		header + "socketGroup: &a /k\nkubeconfig: *a\n",
		`{"apiVersion": "config.podconfigd.dev/v1alpha1", "kind": "PodConfigdConfiguration", "kubeconfig": "/k"}`,
	} {
		dir := write(t, map[string]string{"c": data})
		loaded, err := load(Files{Config: filepath.Join(dir, "c")}, flags(nil))
		if err != nil || loaded.Kubeconfig != "/k" {
			t.Errorf("%q: %v", data, err)
		}
	}
	for _, files := range []Files{{Config: "/nowhere"}, {ConfigDir: "/nowhere"}, {KubeletConfig: "/nowhere"}, {Config: t.TempDir()}} {
		_, err := load(files, flags(nil))
		path := files.Config + files.ConfigDir + files.KubeletConfig
		if err == nil || strings.Contains(err.Error(), "no source") || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%+v: %v", files, err)
		}
	}
}

// The values of headers may be secrets. No fault repeats them.
func TestFaultsHideSecrets(t *testing.T) {
	for _, data := range []string{
		"staticPodURLHeader: {Authorization: Bearer s3cret}\n",
		"staticPodURLHeader: {Authorization: {s3cret: s3cret}}\n",
		"staticPodURLHeader: Bearer s3cret\n",
		"staticPodURLHeader: {X: [[s3cret]]}\n",
		"httpSources:\n- name: a\n  url: http://user:s3cret@a/?s3cret\n  header: {X: s3cret}\n",
		"httpSources:\n- name: a\n  url: ftp://user:s3cret@a/?s3cret\n",
		"staticPodURL: http://user:s3cret@%zz/\n",
	} {
		dir := write(t, map[string]string{"c.yaml": header + data})
		_, err := load(Files{Config: filepath.Join(dir, "c.yaml")}, flags(func(c *daemon.Config) { c.InCluster = true }))
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// In a mounted ConfigMap, the files and the directory with them are links.
func TestDropinsOfAConfigMap(t *testing.T) {
	dir := write(t, map[string]string{
		"..2026_11_22/10.conf": header + "nodeIP: 192.0.2.1\nkubeconfig: /k\n", "..2026_11_22/20.conf": header + "nodeIP: 192.0.2.2\n",
	})
	for _, link := range []struct{ to, name string }{
		{"..2026_11_22", "..data"}, {"..data/10.conf", "10.conf"}, {"..data/20.conf", "20.conf"},
	} {
		if err := os.Symlink(link.to, filepath.Join(dir, link.name)); err != nil {
			t.Fatal(err)
		}
	}
	linked := filepath.Join(t.TempDir(), "podconfigd.d")
	if err := os.Symlink(dir, linked); err != nil {
		t.Fatal(err)
	}
	loaded, err := load(Files{ConfigDir: linked}, flags(nil))
	if err != nil || loaded.NodeIP != "192.0.2.2" {
		t.Fatalf("%v, %+v", err, loaded)
	}
	if want := []string{filepath.Join(linked, "10.conf"), filepath.Join(linked, "20.conf")}; !slices.Equal(loaded.Files(), want) {
		t.Errorf("files %v, want %v", loaded.Files(), want)
	}
	if _, err := load(Files{ConfigDir: filepath.Join(linked, "10.conf")}, flags(nil)); err == nil || !strings.Contains(err.Error(), "expected a directory") {
		t.Errorf("a file as --config-dir: %v", err)
	}
}

// A file that is made to be expensive is refused.
func TestExpensiveFiles(t *testing.T) {
	var laughs, unknown strings.Builder
	laughs.WriteString("a0: &a0 [x]\n")
	for i := range 50 {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9))
	}
	for i := range 60_000 {
		fmt.Fprintf(&unknown, "staticPodPat%d: m\n", i)
	}
	for name, data := range map[string]string{
		"aliases": laughs.String(), "itself": "a: &a [*a]\n", "unknown": unknown.String(),
		"deep": "a: " + strings.Repeat("[", 500_000), "long": "staticPodPath: [" + strings.Repeat("x", 1_000_000) + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"c.yaml": header + data})
			start := time.Now()
			_, err := load(Files{Config: filepath.Join(dir, "c.yaml")}, flags(nil))
			if err == nil || len(err.Error()) > 10_000 {
				t.Errorf("%s: %.1000v", name, err)
			}
			if took := time.Since(start); took > testutil.Patience {
				t.Errorf("%s: refused after %v", name, took)
			}
		})
	}
}

// An item without a value is not the number 0, which is root.
func TestEmptyItemsAreRefused(t *testing.T) {
	dir := write(t, map[string]string{"c.yaml": header + "kubeconfig: k\naccess:\n- uids:\n  - 5\n  -\n  gids: [null]\n  view: full\n-\n"})
	_, err := load(Files{Config: filepath.Join(dir, "c.yaml")}, flags(nil))
	want := "c.yaml:7: access[0].uids[1]: no value\nc.yaml:8: access[0].gids[0]: no value\nc.yaml:10: access[1]: no value\n"
	if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), dir+"/", ""), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A rule for nobody must not become one for everybody: a restriction without a value is a fault.
func TestEmptyRestrictionsOfAccessRules(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"access":            {"access:\n", "c:4: access: no value"},
		"users":             {"access:\n- users: []\n  view: full\n", "c:5: access[0].users: empty: expected at least one; leave the field out"},
		"users in comments": {"access:\n- users:\n#  - prometheus\n  view: full\n", "c:5: access[0].users: empty"},
		"uids":              {"access:\n- {uids: [], view: full}\n", "c:5: access[0].uids: empty"},
		"groups":            {"access:\n- {groups: [], view: full}\n", "c:5: access[0].groups: empty"},
		"gids":              {"access:\n- {gids: [], view: full}\n", "c:5: access[0].gids: empty"},
		"sources":           {"access:\n- {users: [a], sources: [], view: full}\n", "c:5: access[0].sources: empty"},
		"namespaces":        {"access:\n- {users: [a], namespaces: null, view: full}\n", "c:5: access[0].namespaces: empty"},
		"labelSelector":     {"access:\n- {users: [a], labelSelector: '', view: full}\n", "c:5: access[0].labelSelector: empty"},
		"second rule":       {"access:\n- {users: [a], view: full}\n- {users: , view: full}\n", "c:6: access[1].users: empty"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"c": header + "staticPodPath: /m\n" + test.text})
			_, err := load(Files{Config: filepath.Join(dir, "c")}, flags(nil))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v, want %s", test.text, err, test.want)
			}
		})
	}
	dir := write(t, map[string]string{"c": header + "staticPodPath: /m\naccess: []\n"})
	if _, err := load(Files{Config: filepath.Join(dir, "c")}, flags(nil)); err != nil {
		t.Error(err)
	}
}
