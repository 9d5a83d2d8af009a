package access

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "write testdata")

// fill sets each field of a value to something that has its path: each list and map has one
// element.
func fill(v reflect.Value, path string, depth int) {
	if depth > 24 { // fieldsV1 and the like do not nest deeper
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			below := path + "." + name
			if name == "" {
				below = path
			}
			fill(v.Field(i), below, depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{"canary":"` + path + `"}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path+"[]", depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString("key")
		fill(value, path+"{}", depth+1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("canary:" + path + "?query")
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	}
}

// canaries returns the paths that a pod still has, and checks the pod as JSON.
func canaries(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	data, err := json.MarshalIndent(pod, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, part := range strings.Split(string(data), "canary:")[1:] {
		path, _, _ := strings.Cut(part, `"`)
		seen[strings.TrimPrefix(path, ".")] = true
	}
	paths := make([]string, 0, len(seen))
	for path := range seen {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return strings.Join(paths, "\n") + "\n"
}

// Each text of a pod that a form keeps is listed in testdata. A new field of the Kubernetes API is
// in none of the lists, so it is looked at before it is shown. A path without ?query has lost its
// query.
func TestWhatFormsKeep(t *testing.T) {
	whole := new(v1.Pod)
	fill(reflect.ValueOf(whole).Elem(), "", 0)
	before := whole.DeepCopy()
	for _, level := range []Level{Redacted, Metadata} {
		form := formOf(level, nil)
		got := canaries(t, form.Apply(whole))
		file := fmt.Sprintf("testdata/%v.txt", level)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%v keeps other fields than %s lists; look at each new one, and run go test ./pkg/access -update:\n%s", level, file, got)
		}
	}
	if !reflect.DeepEqual(before, whole) {
		t.Error("the pod itself was changed")
	}
	if formOf(Full, nil).Apply(whole) != whole || (Form{}).Apply(whole) != nil {
		t.Error("full and none are wrong")
	}
}

// The fields that must not be shown, by name, in case that the list of those that stay is updated
// without a look.
func TestWhatRedactedHides(t *testing.T) {
	whole := new(v1.Pod)
	fill(reflect.ValueOf(whole).Elem(), "", 0)
	got := canaries(t, formOf(Redacted, nil).Apply(whole))
	for _, container := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, field := range []string{
			".command[]", ".args[]", ".env[].value?", ".livenessProbe.exec.", ".readinessProbe.exec.", ".startupProbe.exec.",
			".lifecycle.postStart.exec.", ".lifecycle.preStop.exec.", ".livenessProbe.httpGet.httpHeaders", ".readinessProbe.httpGet.httpHeaders",
			".lifecycle.postStart.httpGet.httpHeaders", ".livenessProbe.httpGet.path?", ".securityContext.windowsOptions.gmsaCredentialSpec?",
		} {
			if strings.Contains(got, "spec."+container+"[]"+field) {
				t.Errorf("%s%s is shown", container, field)
			}
		}
		for _, field := range []string{".env[].name?", ".env[].valueFrom.secretKeyRef.name?", ".envFrom[].secretRef.name?", ".image?"} {
			if !strings.Contains(got, "spec."+container+"[]"+field) {
				t.Errorf("%s%s is not shown", container, field)
			}
		}
	}
	for _, field := range []string{"metadata.annotations", "metadata.managedFields", ".message?\nstatus.containerStatuses", "csi.volumeAttributes", "flexVolume.options", "userAnnotations", "gitRepo.repository"} {
		if strings.Contains(got, field) {
			t.Errorf("%s is shown", field)
		}
	}
	for _, field := range []string{"status.containerStatuses[].state.terminated.message", "status.initContainerStatuses[].lastState.terminated.message", "status.containerStatuses[].state.waiting.message"} {
		if strings.Contains(got, field) || strings.Contains(canaries(t, formOf(Metadata, nil).Apply(whole)), field) {
			t.Errorf("%s is shown", field)
		}
	}
}

func TestAnnotationsThatStay(t *testing.T) {
	p := pod("a", "b")
	p.Annotations = map[string]string{"keep": "1", "drop": "2", "kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "hash"}
	got := formOf(Redacted, []string{"keep", "absent"}).Apply(p).Annotations
	if want := map[string]string{"keep": "1", "kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "hash"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if got := formOf(Redacted, nil).Apply(pod("a", "b")).Annotations; got != nil {
		t.Errorf("%v", got)
	}
}
