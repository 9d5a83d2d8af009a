package configfile

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/pkg/daemon"
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
		if name == "" || kubelets[name] == nil || slices.Contains([]string{"authentication", "authorization", "tracing"}, name) {
			continue
		}
		if same++; kubelets[name] != typ {
			t.Errorf("%s: the kubelet has type %v, and podconfigd %v", name, kubelets[name], typ)
		}
	}
	// The type of tracing is its own, for its comments, with the fields of the kubelet's.
	if theirs, ours := fieldTypes(kubelets["tracing"]), fieldTypes(own["tracing"]); !maps.Equal(theirs, ours) {
		t.Errorf("tracing: the kubelet has %v, and podconfigd %v", theirs, ours)
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
