package manifest

import (
	"cmp"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/utils/dump"

	"github.com/podconfigd/podconfigd/test/testutil/canary"
)

// minors returns all minors whose rules are known, the oldest first.
func minors() (all []Minor) {
	for m := Oldest; m <= Base; m++ {
		all = append(all, m)
	}
	return all
}

func TestParseMinor(t *testing.T) {
	for version, want := range map[string]Minor{
		"1.36": 36, "v1.36.3": 36, "1.34.4": 34, "v1.34.4-eks-1a2b3c": 34, "v1.33.7+k3s1": 33, "1.38.0": 38,
		"": 0, "1": 0, "1.": 0, "2.36": 0, "1.x": 0, "1.-3": 0, "36": 0, "v1.99999999": 0,
	} {
		t.Run(cmp.Or(version, "empty"), func(t *testing.T) {
			got, err := ParseMinor(version)
			if got != want || (err == nil) != (want != 0) {
				t.Errorf("%q: got %v, %v, want %v", version, got, err, want)
			}
		})
	}
	if (Minor(32)).Known() || (Minor(38)).Known() || !Base.Known() || Minor(38).Nearest() != Base || Minor(20).Nearest() != Oldest {
		t.Error("which minors are known is wrong")
	}
}

// The feature gates give each new pod the same options, also one whose environment variables need the relaxed rules.
func TestTheOptionsOfTheGates(t *testing.T) {
	for _, name := range []string{"A", "a b=c"} {
		t.Run(name, func(t *testing.T) {
			pod := &api.Pod{Spec: api.PodSpec{Containers: []api.Container{{Env: []api.EnvVar{{Name: name}}}}}}
			want := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
			if got := gated(); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// The text of a pod with all fields equals the text of the library that the kubelet uses.
func TestDump(t *testing.T) {
	whole, pod := new(v1.Pod), new(api.Pod)
	canary.Fill(whole, 1)
	if err := corev1.Convert_v1_Pod_To_core_Pod(whole, pod, nil); err != nil {
		t.Fatal(err)
	}
	for what, pod := range map[string]*api.Pod{"a pod with all fields": pod, "an empty pod": {}} {
		t.Run(what, func(t *testing.T) {
			if got, want := string(dumperOf(Base).dump(nil, pod)), dump.ForHash(pod); got != want {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				t.Errorf("%s: after %q got %.100q, want %.100q", what, got[max(0, at-100):at], got[at:], want[at:])
			}
		})
	}
}

// Each minor has a schema of all structs, and its UIDs. test/kubelets compares them with the kubelets'.
func TestUIDsOfMinors(t *testing.T) {
	want := map[Minor]string{
		33: "02f4f368ec001db7570859a96cd499c2", 34: "a247d4e84326c08487cad21547bf9cab", 35: "015c650dd39ccd54e296264d15bf680f",
		36: "69fedbefbf589b11bf5b96593338c3b7", 37: "7ded37cdc657097dc9407cef07f705d4",
	}
	for _, m := range minors() {
		pod, warnings, err := NewDecoder("node1").For(m).DecodeFile("/etc/kubernetes/manifests/web.yaml", []byte(good))
		if err != nil || len(warnings) > 0 || string(pod.UID) != want[m] {
			t.Errorf("%v: got %v, warnings %v, error %v, want UID %s", m, pod.GetUID(), warnings, err, want[m])
		}
	}
	if len(want) != len(minors()) {
		t.Errorf("UIDs for %d of %d minors", len(want), len(minors()))
	}
}

// A field that a kubelet does not know is dropped with a warning.
func TestNewFields(t *testing.T) {
	data := good + "  hostUsers: false\n  hostnameOverride: x\n  hostNetwork: true\n  volumes:\n  - name: v\n    emptyDir: {mode: 5}\n"
	for m, want := range map[Minor]string{
		33: "web.yaml:10: spec.hostnameOverride: kubelet 1.33 does not know the field and ignores it\n" +
			"web.yaml:14: spec.volumes[0].emptyDir.mode: kubelet 1.33 does not know the field and ignores it",
		36: "web.yaml:14: spec.volumes[0].emptyDir.mode: kubelet 1.36 does not know the field and ignores it",
	} {
		t.Run(m.String(), func(t *testing.T) {
			_, warnings, _ := NewDecoder("node1").For(m).DecodeFile("web.yaml", []byte(data))
			if got := strings.Join(in(warnings), "\n"); got != want {
				t.Errorf("%v: got\n%s\nwant\n%s", m, got, want)
			}
		})
	}
}

func BenchmarkDump(b *testing.B) {
	text := newText("web.yaml", []byte(good))
	json, _, err := text.toJSON()
	if err != nil {
		b.Fatal(err)
	}
	pod, _, err := text.decodePod(json)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range minors() {
		b.Run(m.String(), func(b *testing.B) {
			for b.Loop() {
				h := m.newHash()
				_, _ = h.Write(dumperOf(m).dump(nil, pod))
			}
		})
	}
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			h := Base.newHash()
			_, _ = h.Write([]byte(dump.ForHash(pod)))
		}
	})
}
