package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/etcd"
	kubeadmconfig "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	"sigs.k8s.io/yaml"
	"sigs.k8s.io/yaml/kyaml"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// The pods of k8s.io/api's own testdata, which have every field at once and are not
// valid, and valid pods with each part of their specs on its own.
func TestPodsOfTheAPIsTestdata(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "testdata", "*", "core.v1.Pod*.*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	dir := t.TempDir()
	parts := 0
	for i, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		testutil.WriteFile(t, filepath.Join(dir, fmt.Sprintf("whole-%d-%s", i, filepath.Base(path))), string(data))
		if !strings.HasSuffix(path, "core.v1.Pod.json") {
			continue
		}
		for _, pod := range partsOf(t, data) {
			parts++
			pod.Name = fmt.Sprintf("part-%d", parts)
			writeJSON(t, dir, pod)
		}
	}
	accepted := compare(t, dir)
	t.Logf("%d files, %d parts, %d accepted", len(paths), parts, len(accepted))
	if len(accepted) < parts/4 {
		t.Errorf("only %d of %d parts are accepted", len(accepted), parts)
	}
}

// plainPod returns a valid pod.
func plainPod() *v1.Pod {
	return &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		Spec:     v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
}

// partsOf returns a plain pod for each field of the spec, and for each field of its
// containers, with that field set.
func partsOf(t *testing.T, data []byte) (pods []*v1.Pod) {
	t.Helper()
	var whole v1.Pod
	if err := json.Unmarshal(data, &whole); err != nil {
		t.Fatal(err)
	}
	spec := reflect.ValueOf(whole.Spec)
	for i := range spec.NumField() {
		pod := plainPod()
		reflect.ValueOf(&pod.Spec).Elem().Field(i).Set(spec.Field(i))
		if len(pod.Spec.Containers) == 1 {
			pod.Spec.Containers[0].Name, pod.Spec.Containers[0].Image = "c", "i"
		}
		pods = append(pods, pod)
	}
	container := reflect.ValueOf(whole.Spec.Containers[0])
	for i := range container.NumField() {
		pod := plainPod()
		reflect.ValueOf(&pod.Spec.Containers[0]).Elem().Field(i).Set(container.Field(i))
		pods = append(pods, pod)
	}
	volume := reflect.ValueOf(whole.Spec.Volumes[0].VolumeSource)
	for i := range volume.NumField() {
		pod := plainPod()
		pod.Spec.Volumes = []v1.Volume{{Name: "v"}}
		reflect.ValueOf(&pod.Spec.Volumes[0].VolumeSource).Elem().Field(i).Set(volume.Field(i))
		pods = append(pods, pod)
	}
	return pods
}

func writeJSON(t *testing.T, dir string, pod *v1.Pod) {
	t.Helper()
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	testutil.WriteFile(t, filepath.Join(dir, pod.Name+".json"), string(data))
}

// The static pods that kubeadm writes for a control plane, in YAML as kubeadm writes it, and in KYAML.
func TestKubeadmsControlPlane(t *testing.T) {
	config, err := kubeadmconfig.DefaultedStaticInitConfiguration()
	if err != nil {
		t.Fatal(err)
	}
	endpoint := &kubeadmapi.APIEndpoint{AdvertiseAddress: "10.0.0.1", BindPort: 6443}
	config.Etcd.Local = &kubeadmapi.LocalEtcd{DataDir: "/var/lib/etcd"}
	pods := controlplane.GetStaticPodSpecs(&config.ClusterConfiguration, endpoint, nil)
	pods["etcd"] = etcd.GetEtcdPodSpec(&config.ClusterConfiguration, endpoint, "node1", nil)
	want := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"}
	for i, name := range want {
		want[i] = "kube-system/" + name + "-node1"
	}
	slices.Sort(want)
	for format, encode := range map[string]func(any) ([]byte, error){"yaml": yaml.Marshal, "kyaml": asKYAML} {
		t.Run(format, func(t *testing.T) {
			dir := t.TempDir()
			for name, pod := range pods {
				data, err := encode(pod)
				if err != nil {
					t.Fatal(err)
				}
				testutil.WriteFile(t, filepath.Join(dir, name+".yaml"), string(data))
			}
			if got := compare(t, dir); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// asKYAML returns a document of KYAML. The line --- at its start is necessary: without it, the kubelet takes it for JSON.
func asKYAML(object any) ([]byte, error) {
	var text bytes.Buffer
	err := new(kyaml.Encoder).FromObject(object, &text)
	return text.Bytes(), err
}

// edit sets one field of a pod to a value.
type edit struct {
	path  string
	apply func(pod *v1.Pod)
}

// editsOf returns edits for each field of the type, at any depth. get returns the field
// of a pod, and creates missing parents.
func editsOf(path string, typ reflect.Type, get func(*v1.Pod) reflect.Value, depth int) (edits []edit) {
	set := func(name string, value any) {
		edits = append(edits, edit{path + "=" + name, func(pod *v1.Pod) {
			field := get(pod)
			field.Set(reflect.ValueOf(value).Convert(field.Type()))
		}})
	}
	if depth > 12 {
		return nil
	}
	switch typ {
	case reflect.TypeFor[resource.Quantity]():
		set("1", resource.MustParse("1"))
		set("-1", resource.MustParse("-1"))
		return edits
	case reflect.TypeFor[intstr.IntOrString]():
		set("1", intstr.FromInt32(1))
		set("x", intstr.FromString("x"))
		return edits
	case reflect.TypeFor[metav1.FieldsV1]():
		set("{}", *metav1.NewFieldsV1("{}"))
		return edits
	case reflect.TypeFor[metav1.Time]():
		set("time", metav1.Time{Time: time.Unix(1, 0).UTC()})
		return edits
	}
	switch typ.Kind() { //nolint:exhaustive // the API has no other kinds
	case reflect.String:
		for _, value := range []string{"x", "/x", "1.2.3.4", "Always", "Never"} {
			set(value, value)
		}
	case reflect.Bool:
		set("true", true)
	case reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Int:
		set("0", 0)
		set("1", 1)
		set("99999", 99999)
	case reflect.Pointer:
		return editsOf(path, typ.Elem(), func(pod *v1.Pod) reflect.Value {
			field := get(pod)
			if field.IsNil() {
				field.Set(reflect.New(typ.Elem()))
			}
			return field.Elem()
		}, depth+1)
	case reflect.Slice:
		return editsOf(path+"[0]", typ.Elem(), func(pod *v1.Pod) reflect.Value {
			field := get(pod)
			if field.Len() == 0 {
				field.Set(reflect.MakeSlice(typ, 1, 1))
				named(field.Index(0))
			}
			return field.Index(0)
		}, depth+1)
	case reflect.Map:
		for _, key := range []string{"x", "cpu"} {
			edits = append(edits, edit{path + "{" + key + "}", func(pod *v1.Pod) {
				field := get(pod)
				if field.IsNil() {
					field.Set(reflect.MakeMap(typ))
				}
				value := reflect.New(typ.Elem()).Elem()
				if value.Type() == reflect.TypeFor[resource.Quantity]() {
					value.Set(reflect.ValueOf(resource.MustParse("1")))
				}
				field.SetMapIndex(reflect.ValueOf(key).Convert(typ.Key()), value)
			}})
		}
	case reflect.Struct:
		for i := range typ.NumField() {
			edits = append(edits, editsOf(path+"."+typ.Field(i).Name, typ.Field(i).Type, func(pod *v1.Pod) reflect.Value {
				return get(pod).Field(i)
			}, depth+1)...)
		}
	default:
		panic(fmt.Sprintf("%s is a %v", path, typ))
	}
	return edits
}

// named sets the required name and image of a new list element.
func named(item reflect.Value) {
	if item.Kind() != reflect.Struct {
		return
	}
	for name, value := range map[string]string{"Name": "n", "Image": "i", "Key": "k", "TopologyKey": "k", "DevicePath": "/d", "MountPath": "/m", "Path": "p"} {
		if field := item.FieldByName(name); field.IsValid() && field.Kind() == reflect.String {
			field.SetString(value)
		}
	}
}

// Every field of the spec, and then several at once.
func TestEveryFieldOfTheSpec(t *testing.T) {
	edits := editsOf("spec", reflect.TypeFor[v1.PodSpec](), func(pod *v1.Pod) reflect.Value {
		return reflect.ValueOf(&pod.Spec).Elem()
	}, 0)
	edits = append(edits, editsOf("metadata", reflect.TypeFor[metav1.ObjectMeta](), func(pod *v1.Pod) reflect.Value {
		return reflect.ValueOf(&pod.ObjectMeta).Elem()
	}, 0)...)
	// If several pods have one name or UID, the choice is an intended difference. For a
	// manifest with a time, the kubelet computes one UID at the first decoding and
	// another from then on: the hash includes the time's zone and what Go caches in it.
	edits = slices.DeleteFunc(edits, func(e edit) bool {
		field, _, _ := strings.Cut(e.path, "=")
		return slices.Contains([]string{"metadata.Name", "metadata.UID", "metadata.CreationTimestamp", "metadata.DeletionTimestamp"}, field)
	})
	dir := t.TempDir()
	put := func(i int, edits ...edit) {
		pod := plainPod()
		for _, e := range edits {
			e.apply(pod)
		}
		pod.Name = fmt.Sprintf("pod-%d", i)
		data, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		testutil.WriteFile(t, filepath.Join(dir, fmt.Sprintf("pod-%d.json", i)), string(data))
	}
	for i, e := range edits {
		put(i, e)
	}
	accepted := make(map[int]bool)
	for _, name := range compare(t, dir) {
		var i int
		if _, err := fmt.Sscanf(name, "default/pod-%d-", &i); err == nil {
			accepted[i] = true
		}
	}
	touched := make(map[string]bool)
	for i := range accepted {
		path, _, _ := strings.Cut(edits[i].path, "=")
		touched[path] = true
	}
	t.Logf("%d edits, %d accepted, on %d fields", len(edits), len(accepted), len(touched))
	if len(accepted) < 400 || len(touched) < 150 {
		t.Error("too few were accepted to say much")
	}

	dir = t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	good := slices.Sorted(maps.Keys(accepted))
	const n = 1000
	for i := range n {
		several := make([]edit, 2+random.IntN(6))
		for j := range several {
			several[j] = edits[good[random.IntN(len(good))]]
		}
		put(i, several...)
	}
	t.Logf("%d of several edits, %d accepted", n, len(compare(t, dir)))
}
