package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/dump"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
	"github.com/podconfigd/podconfigd/test/testutil/canary"
)

// kubeletsDecode decodes as the kubelet does.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod.
func kubeletsDecode(data []byte) (*api.Pod, error) {
	json, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, err
	}
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), json)
	if err != nil {
		return nil, err
	}
	pod, ok := obj.(*api.Pod)
	if !ok {
		return nil, errors.New("it is no pod")
	}
	return pod, nil
}

// checkFaults checks that each fault has an existing line, and one line of text.
func checkFaults(t *testing.T, data []byte, faults []Fault) {
	t.Helper()
	lines := 2 + bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) +
		bytes.Count(data, []byte("\u0085")) + bytes.Count(data, []byte("\u2028")) + bytes.Count(data, []byte("\u2029"))
	if len(faults) > yamlfault.MaxFaults+1 {
		t.Errorf("there are %d faults", len(faults))
	}
	for _, f := range faults {
		if f.Line < 0 || f.Line > lines || f.Message == "" || strings.ContainsAny(f.In("f"), "\n\r") || len(f.In("f")) > 2*yamlfault.MaxFaultLength+100 {
			t.Errorf("%+v", f)
		}
	}
}

// Any bytes give a pod or an error with a reason, and the same bytes give the same pod.
func FuzzDecodeFile(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(aliasBomb()))
	f.Add([]byte("---\n# KYAML\n{\n  apiVersion: \"v1\",\n  kind: \"Pod\",\n  metadata: {\n    name: \"a\",\n  },\n  spec: {\n    containers: [{\n      name: \"c\",\n      image: \"d\", # comment\n    }],\n  },\n}\n"))
	for _, test := range faultTests {
		f.Add([]byte(test.data))
	}
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"b"},"spec":{"containers":[{"name":"c","image":"d"}]}}`))
	examples, _ := filepath.Glob("../../examples/manifests/*")
	for _, path := range examples {
		if data, err := os.ReadFile(path); err == nil {
			f.Add(data)
		}
	}
	decoder := NewDecoder("node")
	f.Fuzz(func(t *testing.T, data []byte) {
		pod, warnings, err := decoder.DecodeFile("/m/f", data)
		checkFaults(t, data, warnings)
		if _, kubelets := kubeletsDecode(data); err == nil && kubelets != nil {
			t.Fatalf("accepted, and the kubelet says %v", kubelets)
		}
		if err != nil {
			refused, ok := errors.AsType[*Error](err)
			if !ok || pod != nil || len(refused.Faults) == 0 || err.Error() == "" {
				t.Fatalf("pod %v and error %v", pod, err)
			}
			checkFaults(t, data, refused.Faults)
			if pod, _ := kubeletsDecode(data); pod != nil && (refused.Reason == ReasonNotYAML || refused.Reason == ReasonNotAPod) {
				t.Fatalf("refused (%v), and the kubelet decodes it", err)
			}
			return
		}
		if pod.UID == "" || !strings.HasSuffix(pod.Name, "-node") || pod.Namespace == "" || pod.Spec.NodeName != "node" {
			t.Errorf("incomplete: %v", pod.ObjectMeta)
		}
		again, _, err := decoder.DecodeFile("/m/f", data)
		if err != nil || again.UID != pod.UID {
			t.Errorf("the second time: UID %v, %v; want %s", again.UID, err, pod.UID)
		}
	})
}

// Any body gives items or an error with a reason, and every item has a complete pod or an
// error.
func FuzzDecodeURL(f *testing.F) {
	const item = `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	for _, body := range []string{
		good, `{"apiVersion":"v1","kind":"PodList","items":[]}`, `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Replace(item, `"a"`, `"a","Name":""`, 1) + `]}`, `{"apiVersion":"v1","kind":"PodList","items":[` + item + `,` + item + `,{},null,1]}`,
		"apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n", `{"kind":"PodList","apiVersion":"v1"}`, "- a", aliasBomb(),
	} {
		f.Add([]byte(body))
	}
	decoder := NewDecoder("node")
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := decoder.DecodeURL("http://example.com/", data)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok || items != nil || err.Error() == "" {
				t.Fatalf("items %v and error %v", items, err)
			}
			return
		}
		for item := range items {
			if item.Err != nil {
				if _, ok := errors.AsType[*Error](item.Err); !ok || item.Pod != nil {
					t.Errorf("pod %v and error %v", item.Pod, item.Err)
				}
				continue
			}
			if item.Pod.UID == "" || !strings.HasSuffix(item.Pod.Name, "-node") || item.Pod.Namespace == "" || item.Name+"-node" != item.Pod.Name {
				t.Errorf("incomplete: %q %v", item.Name, item.Pod.ObjectMeta)
			}
		}
	})
}

// For any manifest, the text that makes the UID equals the text of the library that the kubelet uses. The
// rules of every minor decode it without a panic, and the same bytes give the same UID.
func FuzzMinors(f *testing.F) {
	whole := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	canary.Fill(&whole.ObjectMeta, 1)
	canary.Fill(&whole.Spec, 1)
	canary.Fill(&whole.Status, 1)
	data, err := json.Marshal(whole)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(good))
	f.Add([]byte(good + "  resources: {limits: {cpu: 1, hugepages-2Mi: 4Mi}}\n  hostUsers: false\n"))
	f.Add([]byte(good + "status: {startTime: '2020-01-01T00:00:00Z', conditions: [{lastProbeTime: '2020-01-01T00:00:00Z'}], podIPs: [{ip: x}]}\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","creationTimestamp":"2020-01-01T00:00:00+01:00","deletionTimestamp":"2020-01-01T00:00:00Z"},"spec":{"containers":[{"name":"c","image":"d","resources":{"limits":{"cpu":"1e3"}}}],"volumes":[{"name":"v","image":{}}],"tolerations":[{"tolerationSeconds":0}]}}`))
	decoders := make([]*Decoder, 0, len(minors()))
	for _, m := range minors() {
		decoders = append(decoders, NewDecoder("node").For(m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if pod, err := kubeletsDecode(data); err == nil && !tooMany(data) {
			pod.CreationTimestamp = metav1.Time{} // its hash depends on what Go caches in a time zone
			if got, want := string(dumperOf(Base).dump(nil, pod)), dump.ForHash(pod); got != want {
				t.Errorf("the text is\n%s\nwant\n%s", got, want)
			}
		}
		for i, d := range decoders {
			pod, _, err := d.DecodeFile("/m/f", data)
			if err != nil {
				if strings.Contains(err.Error(), "panic") {
					t.Errorf("%v: %v", minors()[i], err)
				}
				continue
			}
			if again, _, err := d.DecodeFile("/m/f", data); err != nil || again.UID != pod.UID {
				t.Errorf("%v: UIDs %s and %v, %v", minors()[i], pod.UID, again, err)
			}
		}
	})
}
