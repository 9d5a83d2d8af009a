package configfile

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// fieldTypes returns the types of the fields by their names in the file.
func fieldTypes(typ reflect.Type) map[string]reflect.Type {
	types := make(map[string]reflect.Type)
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		types[name] = field.Type
		if field.Type.Kind() == reflect.Pointer {
			types[name] = field.Type.Elem()
		}
	}
	return types
}

// A field has the name and the type of the kubelet's field.
func TestFieldsOfTheKubelet(t *testing.T) {
	kubelets, own := fieldTypes(reflect.TypeFor[kubeletconfig.KubeletConfiguration]()), fieldTypes(configType)
	for _, name := range kubeletFormat.fields {
		if kubelets[name] == nil || own[name] == nil {
			t.Errorf("%s: the kubelet has type %v, and podconfigd %v", name, kubelets[name], own[name])
		}
	}
	same := 0
	for name, typ := range own {
		if name == "" || kubelets[name] == nil || slices.Contains([]string{"authentication", "authorization"}, name) {
			continue
		}
		if same++; kubelets[name] != typ {
			t.Errorf("%s: the kubelet has type %v, and podconfigd %v", name, kubelets[name], typ)
		}
	}
	if same < 10 {
		t.Errorf("only %d fields have a name of the kubelet's", same)
	}
}

// A KubeletConfiguration as kubeadm writes it has all fields, most of them empty.
func TestKubeletConfigurationWithEmptyFields(t *testing.T) {
	config := kubeletconfig.KubeletConfiguration{StaticPodPath: "/etc/kubernetes/manifests", ResolverConfig: new("/etc/resolv.conf")}
	config.APIVersion, config.Kind = kubeletFormat.apiVersion, kubeletFormat.kind
	config.StaticPodURLHeader = map[string][]string{"A": {"b"}}
	config.StaticPodURL, config.SyncFrequency.Duration = "http://example.com", 5*time.Second
	data, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{string(data), string(data) + "newField: {of: a newer kubelet}\nmaxPods: many\n", string(data) + "maxPods: 1\nmaxPods: 2\n"} {
		dir := write(t, map[string]string{"kubelet": data})
		loaded, err := load(Files{KubeletConfig: filepath.Join(dir, "kubelet")}, flags(nil))
		if err != nil {
			t.Fatal(err)
		}
		want := flags(nil)
		if got := &loaded.Config; got.StaticPodPath != "/etc/kubernetes/manifests" || got.StaticPodURL != "http://example.com" ||
			got.StaticPodURLHeader["A"][0] != "b" || got.SyncFrequency.Duration != 5*time.Second || *got.FileCheckFrequency != *want.FileCheckFrequency ||
			*got.HTTPCheckFrequency != *want.HTTPCheckFrequency || got.TLSCertFile != "" {
			t.Errorf("got %+v", got)
		}
	}
	dir := write(t, map[string]string{"kubelet": string(data) + "syncFrequency: -1s\n"})
	if _, err := load(Files{KubeletConfig: filepath.Join(dir, "kubelet")}, flags(nil)); err == nil || !strings.Contains(err.Error(), "syncFrequency: -1s is too short") {
		t.Errorf("a bad value: %v", err)
	}
}

// Zero values are those that the kubelet takes for its defaults, in any spelling, except for eventRecordQPS. A
// header without a URL is ignored.
func TestZeroValuesOfAKubeletConfiguration(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: /etc/kubernetes/manifests\n"
	for _, fields := range []string{
		"fileCheckFrequency: 0m0s\nhttpCheckFrequency: 0h0m\nsyncFrequency: 0s\neventBurst: 0\n",
		"fileCheckFrequency: 0\nhttpCheckFrequency: '0'\nsyncFrequency: 0.0s\neventBurst: 0.0\nstaticPodURLHeader: {A: [b]}\n",
	} {
		dir := write(t, map[string]string{"kubelet": head + fields + "eventRecordQPS: 0\n"})
		loaded, err := load(Files{KubeletConfig: filepath.Join(dir, "kubelet")}, flags(nil))
		if err != nil {
			t.Fatal(err)
		}
		want := flags(nil)
		if got := &loaded.Config; *got.FileCheckFrequency != *want.FileCheckFrequency || *got.HTTPCheckFrequency != *want.HTTPCheckFrequency ||
			*got.SyncFrequency != *want.SyncFrequency || *got.EventBurst != *want.EventBurst || *got.EventRecordQPS != 0 || len(got.StaticPodURLHeader) != 0 {
			t.Errorf("%s: got %+v", fields, got)
		}
	}
}

// The URL of a header can come from the command line or from another file.
func TestAHeaderWhoseURLComesFromElsewhere(t *testing.T) {
	dir := write(t, map[string]string{
		"kubelet": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodURLHeader: {A: [b]}\n",
		"c":       header + "staticPodURL: http://x\n",
	})
	kubelet := filepath.Join(dir, "kubelet")
	for name, test := range map[string]struct {
		files Files
		flags *Flags
	}{
		"URL of a flag": {Files{KubeletConfig: kubelet}, flags(func(c *daemon.Config) { c.StaticPodURL = "http://x" }, "manifest-url")},
		"URL of a file": {Files{KubeletConfig: kubelet, Config: filepath.Join(dir, "c")}, flags(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := Load(test.files, test.flags)
			if err != nil {
				t.Fatal(err)
			}
			if got := loaded.StaticPodURLHeader; len(got["A"]) != 1 {
				t.Errorf("got the headers %v", got)
			}
		})
	}
}

const kubeletHeader = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// The drop-ins are merged over the file as the kubelet merges them.
//
// kubelet: cmd/kubelet/app/server.go mergeKubeletConfigurations.
func TestDropinsOfTheKubelet(t *testing.T) {
	type fields struct {
		path, url string
		header    string
		sync      time.Duration
		qps       int32
	}
	const file = "staticPodPath: /a\nstaticPodURL: http://a\nsyncFrequency: 5s\neventRecordQPS: 7\nstaticPodURLHeader: {A: [a, b], B: [b]}\n"
	want := fields{"/a", "http://a", "map[A:[a b] B:[b]]", 5 * time.Second, 7}
	for name, test := range map[string]struct {
		dropins map[string]string
		want    func(*fields)
	}{
		"none":                    {nil, func(*fields) {}},
		"in order":                {map[string]string{"10.conf": "staticPodPath: /c", "00.conf": "staticPodPath: /b\nsyncFrequency: 6s"}, func(f *fields) { f.path, f.sync = "/c", 6*time.Second }},
		"in a subdirectory":       {map[string]string{"10.conf": "staticPodPath: /b", "20/x.conf": "staticPodPath: /c"}, func(f *fields) { f.path = "/c" }},
		"not .conf":               {map[string]string{"10.yaml": "staticPodPath: /b", "README": "text", "20.conf.bak": "staticPodPath: /c"}, func(*fields) {}},
		"null is the default":     {map[string]string{"10.conf": "syncFrequency: null\neventRecordQPS: null\nstaticPodPath: null"}, func(f *fields) { f.path, f.sync, f.qps = "", time.Minute, 50 }},
		"zero is the default":     {map[string]string{"10.conf": "syncFrequency: 0s\nstaticPodPath: ''\nstaticPodURL: ''"}, func(f *fields) { f.path, f.url, f.header, f.sync = "", "", "map[]", time.Minute }},
		"zero that is a value":    {map[string]string{"10.conf": "eventRecordQPS: 0"}, func(f *fields) { f.qps = 0 }},
		"objects are merged":      {map[string]string{"10.conf": "staticPodURLHeader: {A: [c], B: null, C: [d]}"}, func(f *fields) { f.header = "map[A:[c] C:[d]]" }},
		"a path as it is":         {map[string]string{"10.conf": "staticPodPath: manifests"}, func(f *fields) { f.path = "manifests" }},
		"fields of others":        {map[string]string{"10.conf": "clusterDNS: [10.43.0.10]\nmaxPods: 3"}, func(*fields) {}},
		"zero, then a value":      {map[string]string{"10.conf": "syncFrequency: 0s", "20.conf": "syncFrequency: 9s"}, func(f *fields) { f.sync = 9 * time.Second }},
		"value, then a zero":      {map[string]string{"10.conf": "syncFrequency: 9s", "20.conf": "syncFrequency: 0s"}, func(f *fields) { f.sync = time.Minute }},
		"a directory named .conf": {map[string]string{"10.conf/x": "text"}, func(*fields) {}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, base := range []bool{true, false} { // the directory alone is enough
				files := map[string]string{"own": header + "kubeconfig: /kubeconfig\n", "d/00-0.conf": kubeletHeader + file}
				if base {
					delete(files, "d/00-0.conf")
					files["d/.keep"], files["kubelet"] = "", kubeletHeader+file
				}
				for name, data := range test.dropins {
					files["d/"+name] = kubeletHeader + data + "\n"
				}
				dir := write(t, files)
				paths := Files{Config: filepath.Join(dir, "own"), KubeletConfigDir: filepath.Join(dir, "d")}
				if base {
					paths.KubeletConfig = filepath.Join(dir, "kubelet")
				}
				loaded, err := Load(paths, flags(nil))
				if err != nil {
					t.Fatal(err)
				}
				want := want
				test.want(&want)
				c := &loaded.Config
				got := fields{c.StaticPodPath, c.StaticPodURL, fmt.Sprint(c.StaticPodURLHeader), c.SyncFrequency.Duration, *c.EventRecordQPS}
				if got != want {
					t.Errorf("with a file: %t: got %+v, want %+v", base, got, want)
				}
			}
		})
	}
}

// What is given to the wrong flag gets an error that names the right one.
func TestAPathForAnotherFlag(t *testing.T) {
	dir := write(t, map[string]string{"d/x.conf": kubeletHeader, "own": header, "kubelet": kubeletHeader, "kubelets/x.conf": kubeletHeader, "broken/x.conf": "kind: x"})
	at := func(name string) string { return filepath.Join(dir, name) }
	for want, files := range map[string]Files{
		"--kubelet-config: " + at("d") + ": expected a file: for a directory, use --kubelet-config-dir":            {KubeletConfig: at("d")},
		"--kubelet-config-dir: " + at("kubelet") + ": expected a directory: for a file, use --kubelet-config":      {KubeletConfigDir: at("kubelet")},
		"--config: " + at("d") + ": expected a file: for a directory, use --config-dir":                            {Config: at("d")},
		"--config-dir: " + at("own") + ": expected a directory: for a file, use --config":                          {ConfigDir: at("own")},
		"for the configuration of a kubelet, use --kubelet-config or --kubelet-config-dir":                         {Config: at("kubelet")},
		"use --kubelet-config or --kubelet-config-dir":                                                             {ConfigDir: at("kubelets")},
		"--kubelet-config-dir: " + at("nowhere") + ": no such file or directory":                                   {KubeletConfigDir: at("nowhere")},
		at("broken/x.conf") + `:1: kind: "x": expected apiVersion kubelet.config.k8s.io/v1beta1`:                   {KubeletConfigDir: at("broken")},
		"--kubelet-config: " + at("d") + ": expected a file: for a directory, use --kubelet-config-dir\n--config:": {KubeletConfig: at("d"), Config: at("d")},
	} {
		if _, err := Load(files, flags(nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", files, err, want)
		}
	}
}

// Follow reads only the files of the kubelet again.
func TestFollow(t *testing.T) {
	dir := write(t, map[string]string{"kubelet": kubeletHeader + "staticPodPath: /a\n", "d/10.conf": kubeletHeader, "own": header + "stateDir: /s\n"})
	at := func(name string) string { return filepath.Join(dir, name) }
	c, err := Load(Files{KubeletConfig: at("kubelet"), KubeletConfigDir: at("d"), Config: at("own")}, flags(nil))
	if err != nil {
		t.Fatal(err)
	}
	testutil.WriteFile(t, at("own"), "broken: [")
	if next, err := c.Follow(); next != nil || err != nil {
		t.Errorf("nothing of the kubelet has changed: %v, %v", next, err)
	}
	follow := func(what string, change func(), wantErr, wantPath string) {
		t.Helper()
		change()
		next, err := c.Follow()
		if next == nil || next.SameKubelet(c) || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Fatalf("%s: %v", what, err)
		}
		again, _ := c.Follow()
		if !again.SameKubelet(next) {
			t.Errorf("%s: the same files are others", what)
		}
		if err == nil && (next.StaticPodPath != wantPath || next.StateDir != "/s") {
			t.Errorf("%s: %+v", what, next.PodConfigdConfiguration)
		}
	}
	follow("a drop-in", func() { testutil.WriteFile(t, at("d/20.conf"), kubeletHeader+"staticPodPath: /b\n") }, "", "/b")
	follow("the file", func() { testutil.WriteFile(t, at("kubelet"), kubeletHeader+"staticPodPath: /c\n") }, "", "/b")
	follow("a drop-in is gone", func() { _ = os.Remove(at("d/20.conf")) }, "", "/c")
	follow("half a file", func() { testutil.WriteFile(t, at("kubelet"), "apiVersion: kubelet.config") }, "expected apiVersion", "")
	follow("no file", func() { _ = os.Remove(at("kubelet")) }, "no such file", "")
	follow("no directory", func() { _ = os.RemoveAll(at("d")) }, "no such file", "")
	if next, err := (&Configuration{}).Follow(); next != nil || err != nil {
		t.Errorf("without files: %v, %v", next, err)
	}
}
