package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A status in a manifest is part of the UID, as it is in the kubelet, and of nothing else.
func TestStatusOfAManifest(t *testing.T) {
	const saved = good + `status:
  phase: Running
  podIP: 10.0.0.1
  conditions: [{type: Ready, status: "True"}]
  containerStatuses: [{name: web, ready: true, restartCount: 7, image: i, imageID: ""}]
`
	plain, warnings, err := NewDecoder("node1").DecodeFile("/m/web.yaml", []byte(good))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	pod, warnings, err := NewDecoder("node1").DecodeFile("/m/web.yaml", []byte(saved))
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0].In("web.yaml"), "web.yaml:9: status: ignored") {
		t.Errorf("warnings %v", warnings)
	}
	if got, want := pod.Status.String(), plain.Status.String(); got != want {
		t.Errorf("the status is %s, want %s", got, want)
	}
	if pod.UID == plain.UID {
		t.Error("the status is no part of the UID")
	}
	for _, none := range []string{"status: {}\n", "status: {phase: Pending}\n"} {
		if _, warnings, err := NewDecoder("node1").DecodeFile("/m/web.yaml", []byte(good+none)); err != nil || len(warnings) > 0 {
			t.Errorf("%q: %v, %v", none, err, warnings)
		}
	}
}

// A mirror pod that was saved from the apiserver is no static pod.
func TestASavedMirrorPod(t *testing.T) {
	saved := strings.Replace(good, "metadata:\n", "metadata:\n  annotations:\n    kubernetes.io/config.mirror: abc\n", 1)
	_, warnings, err := NewDecoder("node1").DecodeFile("/m/web.yaml", []byte(saved))
	const want = "web.yaml:5: metadata.annotations[kubernetes.io/config.mirror]: the kubelet does not start a pod with this annotation, which makes it a mirror pod: remove it"
	if err != nil || len(warnings) != 1 || warnings[0].In("web.yaml") != want {
		t.Errorf("%v, %v", warnings, err)
	}
}

// As with the kubelet, keys of a PodList in another case are other keys. A list that has its items twice is refused.
func TestKeysOfAPodList(t *testing.T) {
	const pod = `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	list := func(members string) string { return `{"kind":"PodList","apiVersion":"v1",` + members + `}` }
	const head, item = "kind: PodList\napiVersion: v1\n", "- metadata: {name: a}\n  spec: {containers: [{name: c, image: i}]}\n"
	for _, test := range []struct{ name, answer, want string }{
		{"one key", list(`"items":[` + pod + `]`), "default/a-node1"},
		{"an empty list in another case after it", list(`"items":[` + pod + `],"Items":[]`), "default/a-node1"},
		{"an empty list in another case before it", list(`"ITEMS":[],"items":[` + pod + `]`), "default/a-node1"},
		{"with a letter of another alphabet", list(`"items":[` + pod + `],"itemſ":[]`), "default/a-node1"},
		{"its kind in another case", `{"Kind":"PodList","APIVersion":"v1","items":[` + pod + `]}`, "default/a-node1"},
		{"twice", list(`"items":[` + pod + `],"items":[]`), "items: duplicate key"},
		{"twice in YAML", head + "items:\n" + item + "items: []\n", "line 6: items: duplicate key"},
		{"twice in YAML, after many other duplicates", head + strings.Repeat("x: 1\n", 2000) + "items:\n" + item + "items: []\n", "line 2006: items: duplicate key"},
		{"another key twice in YAML", head + "metadata: {}\nmetadata: {}\nitems:\n" + item, "default/a-node1"},
		{"in another case only", list(`"Items":[` + pod + `]`), "Required value"},
		{"null", list(`"items":null`), "Required value"},
		{"a pod with metadata twice", list(`"items":[` + pod[:len(pod)-1] + `,"metadata":{"namespace":"n"}}]`), "n/a-node1 (metadata: duplicate key)"},
		{"a pod with another kind", list(`"items":[` + pod[:len(pod)-1] + `,"kind":"Secret" , "apiVersion":7}]`), "default/a-node1"},
		{"a pod whose kind comes first", list(`"items":[{ "kind":"Secret",` + pod[1:] + `]`), "default/a-node1"},
		{"not a pod", list(`"items":["a"]`), "not a Kubernetes object"},
		{"an empty object", list(`"items":[{}]`), "metadata.name: Required value"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			items, err := NewDecoder("node1").DecodeURL("http://x", []byte(test.answer))
			if err != nil {
				got = append(got, err.Error())
			} else {
				for item := range items {
					switch {
					case item.Err != nil:
						got = append(got, item.Err.Error())
					case len(item.Warnings) > 0:
						got = append(got, fmt.Sprintf("%s/%s (%s)", item.Pod.Namespace, item.Pod.Name, item.Warnings[0].In("")))
					default:
						got = append(got, item.Pod.Namespace+"/"+item.Pod.Name)
					}
				}
			}
			if len(got) != 1 || !strings.Contains(got[0], test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// panicking is evidence that panics for a pod.
type panicking struct{}

func (panicking) Decoded(name types.NamespacedName, _ string, _ types.UID, _ time.Duration) types.UID {
	if strings.HasPrefix(name.Name, "bad") {
		panic("a fault")
	}
	return ""
}

func (panicking) Identified(types.NamespacedName, types.UID, Minor) bool { return false }

// A manifest that makes the decoder panic is refused, and the others are decoded.
func TestAPanicIsAVerdict(t *testing.T) {
	d := NewDecoder("node1")
	d.Compare(panicking{})
	const want = "podconfigd has a fault that this manifest meets (panic: a fault): please report it"
	if _, _, err := d.DecodeFile("/m/web.yaml", []byte(strings.Replace(good, "name: web", "name: bad", 1))); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("file: %v", err)
	}
	const pod = `{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	items, err := d.DecodeURL("http://x", fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","items":[`+pod+","+pod+`]}`, "bad", "good"))
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Collect(items)
	if len(got) != 2 || got[0].Err == nil || !strings.Contains(got[0].Err.Error(), want) || got[1].Err != nil {
		t.Errorf("list: %v", got)
	}
}
