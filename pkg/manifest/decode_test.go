package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

const good = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: nginx
    image: nginx:1.27
`

func decode(t *testing.T, data string) (*v1.Pod, []Fault, error) {
	t.Helper()
	return NewDecoder("node1").DecodeFile("/etc/kubernetes/manifests/web.yaml", []byte(data))
}

func TestDecodeFile(t *testing.T) {
	pod, warnings, err := decode(t, good)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, warnings %v", err, warnings)
	}
	for _, check := range []struct{ what, got, want string }{
		{"name", pod.Name, "web-node1"},
		{"namespace", pod.Namespace, "default"},
		{"node name", pod.Spec.NodeName, "node1"},
		{"config.hash", pod.Annotations["kubernetes.io/config.hash"], string(pod.UID)},
		{"phase", string(pod.Status.Phase), "Pending"},
		{"restart policy", string(pod.Spec.RestartPolicy), "Always"},
		{"pull policy", string(pod.Spec.Containers[0].ImagePullPolicy), "IfNotPresent"},
		{"DNS policy", string(pod.Spec.DNSPolicy), "ClusterFirst"},
		{"scheduler", pod.Spec.SchedulerName, "default-scheduler"},
		{"tolerations", fmt.Sprint(pod.Spec.Tolerations), "[{ Exists  NoExecute <nil>}]"},
		// test/conformance compares it with the kubelet's.
		{"UID", string(pod.UID), "7ded37cdc657097dc9407cef07f705d4"},
	} {
		t.Run(check.what, func(t *testing.T) {
			if check.got != check.want {
				t.Errorf("%s is %q, want %q", check.what, check.got, check.want)
			}
		})
	}
}

func TestJSONAndYAMLAreTheSame(t *testing.T) {
	fromYAML, _, err := decode(t, good)
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, _, err := decode(t, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"spec":{"containers":[{"image":"nginx:1.27","name":"nginx"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if fromYAML.UID != fromJSON.UID {
		t.Errorf("UIDs %s and %s", fromYAML.UID, fromJSON.UID)
	}
}

// The UID depends on the node, the path and the content. A UID in the manifest is kept.
func TestUID(t *testing.T) {
	uids := map[string]string{}
	add := func(what, node, path, data string) {
		pod, _, err := NewDecoder("n").DecodeFile(path, []byte(data))
		if node != "n" {
			pod, _, err = NewDecoder("m").DecodeFile(path, []byte(data))
		}
		if err != nil {
			t.Fatal(err)
		}
		if other, there := uids[string(pod.UID)]; there {
			t.Errorf("%s has the UID of %s", what, other)
		}
		uids[string(pod.UID)] = what
	}
	add("one", "n", "/m/web.yaml", good)
	add("another node", "m", "/m/web.yaml", good)
	add("another path", "n", "/m/web2.yaml", good)
	add("another image", "n", "/m/web.yaml", strings.Replace(good, "1.27", "1.28", 1))
	pod, _, err := decode(t, strings.Replace(good, "name: web", "name: web\n  uid: abc", 1))
	if err != nil || pod.UID != "abc" {
		t.Errorf("UID %q, %v; want the manifest's own", pod.UID, err)
	}
}

func aliasBomb() string {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
	}
	return bomb
}

func withSpec(spec string) string { return good + "  " + spec + "\n" }

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name, data string
		reason     Reason
		message    string
	}{
		{"empty", "", ReasonEmpty, "the file is empty"},
		{"white space", " \n\t\n", ReasonEmpty, "the file is empty"},
		{"a comment", "# nothing\n", ReasonNotAPod, "not a Kubernetes object: expected apiVersion v1, kind Pod"},
		{"broken YAML", "kind: [", ReasonNotYAML, "web.yaml:1: neither YAML nor JSON: did not find expected node content"},
		{"binary", "\x00\x01\xff", ReasonNotYAML, "control characters"},
		{"alias bomb", aliasBomb(), ReasonTooLarge, "10 MiB or more with its aliases expanded"},
		{"a list", "[1, 2]", ReasonNotAPod, "not a Kubernetes object: expected apiVersion v1, kind Pod"},
		{"a word", "pod", ReasonNotAPod, "not a Kubernetes object: expected apiVersion v1, kind Pod"},
		{"no kind", "apiVersion: v1", ReasonNotAPod, "web.yaml:1: kind: Required value: expected Pod"},
		{"no version", "kind: Pod", ReasonNotAPod, "web.yaml:1: apiVersion: Required value: expected v1"},
		{"an unknown kind", "apiVersion: v1\nkind: Foo", ReasonNotAPod, "web.yaml:2: kind: expected apiVersion v1, kind Pod, got apiVersion v1, kind Foo"},
		{"a Deployment", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}", ReasonNotAPod, "web.yaml:2: kind: expected apiVersion v1, kind Pod, got apiVersion apps/v1, kind Deployment"},
		{"a Service", "apiVersion: v1\nkind: Service\nmetadata: {name: x}", ReasonNotAPod, "web.yaml:2: kind: expected apiVersion v1, kind Pod, got apiVersion v1, kind Service"},
		{"a List", "apiVersion: v1\nkind: List\nitems: []", ReasonNotAPod, "put each pod in its own file"},
		{"a PodList", "apiVersion: v1\nkind: PodList\nitems: []", ReasonNotAPod, "put each pod in its own file"},
		{"no name", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, image: b}]}", ReasonInvalid, "metadata.name: Required"},
		{"no containers", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}", ReasonInvalid, "spec.containers: Required"},
		{"a wrong type", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 5}", ReasonInvalid, "spec.containers"},
		{"a bad name", strings.Replace(good, "name: web", "name: Web_1", 1), ReasonInvalid, "metadata.name: Invalid value"},
		{"a bad port", good + "    ports: [{containerPort: 70000}]\n", ReasonInvalid, "containerPort"},
		{"a service account", withSpec("serviceAccountName: builder"), ReasonForbidden, "serviceaccounts"},
		{"a secret", withSpec("volumes: [{name: v, secret: {secretName: s}}]"), ReasonForbidden, "secrets"},
		{"a config map", good + "    envFrom: [{configMapRef: {name: c}}]\n", ReasonForbidden, "configmaps"},
		{"a claim", withSpec("volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]"), ReasonForbidden, "persistentvolumeclaims"},
		{"a resource claim", withSpec("resourceClaims: [{name: r, resourceClaimName: c}]"), ReasonForbidden, "resourceclaims"},
		{
			"a trust bundle", withSpec("volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: b, path: p}}]}}]"),
			ReasonForbidden, "clustertrustbundles",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod, _, err := decode(t, test.data)
			refused, ok := errors.AsType[*Error](err)
			if !ok || pod != nil {
				t.Fatalf("pod %v, error %v", pod, err)
			}
			if refused.Reason != test.reason || !strings.Contains(err.Error(), test.message) {
				t.Errorf("%s: %v; want %s with %q", refused.Reason, err, test.reason, test.message)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %q", err)
			}
		})
	}
}

func TestLaterDocuments(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		want int
	}{
		"one":                      {good, 0},
		"one with a separator":     {"---\n" + good, 0},
		"a comment first":          {"# first\n---\n" + good, 0},
		"a separator last":         {good + "---\n", 0},
		"a comment last":           {good + "---\n# nothing\n---\n", 0},
		"two":                      {good + "---\n" + good, 1},
		"an object and a number":   {"---\n" + good + "--- {}\n---\n1", 2},
		"four hyphens":             {good + "----\n", 0},
		"hyphens in a string":      {"a: |\n  x\n  ---\n  y\n", 0},
		"a directive":              {"%YAML 1.1\n# a\n---\n" + good, 0},
		"a byte order mark":        {"\ufeff---\n" + good, 0},
		"an end":                   {good + "...\n", 0},
		"one after an end":         {good + "...\n" + good, 1},
		"a directive after an end": {good + "...\n%YAML 1.1\n---\n{}", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := yamlfault.LaterDocuments([]byte(test.data)); got != test.want {
				t.Errorf("%d documents after the first, want %d, in\n%s", got, test.want, test.data)
			}
		})
	}
	pod, warnings, err := decode(t, good+"---\nkind: Pod\n")
	if err != nil || pod.Name != "web-node1" || len(warnings) != 1 || !strings.Contains(warnings[0].In("web.yaml"), "web.yaml:9: 1 more YAML document") {
		t.Errorf("pod %v, warnings %v, error %v", pod, warnings, err)
	}
}

// TestTextAfterKYAML: a brace too many ends a manifest in KYAML. What follows is not read, which is a warning.
func TestTextAfterKYAML(t *testing.T) {
	const pod = "---\n{\n apiVersion: \"v1\", kind: \"Pod\", metadata: {name: \"web\"},\n spec: {containers: [{name: \"c\", image: \"d\",}],},\n}\n"
	for after, line := range map[string]string{
		"": "", "# comment\n": "", "...\n": "", "---\n": "",
		"}\n": "web.yaml:6: ", "\n  hostNetwork: true,\n}\n": "web.yaml:7: ", "{}\n": "web.yaml:6: ", "---\n{}\n}\n": "web.yaml:6: 1 more",
	} {
		_, warnings, err := decode(t, pod+after)
		if err != nil || len(warnings) != min(len(line), 1) || line != "" && !strings.HasPrefix(warnings[0].In("web.yaml"), line) {
			t.Errorf("%q: warnings %v, error %v; want %q", after, warnings, err, line)
		}
	}
	for _, before := range []string{"--- !!map\n", "!!map\n", "--- &a\n", "&a !!map\n", "--- !!map # comment\n", "!!map\n# comment\n\n # comment\n&a\n"} {
		_, warnings, err := decode(t, before+strings.TrimPrefix(pod, "---\n")+"}\n")
		if err != nil || len(warnings) != 1 {
			t.Errorf("after %q: warnings %v, error %v", before, warnings, err)
		}
	}
}

func TestRead(t *testing.T) {
	for _, test := range []struct {
		start             string
		size              int
		tooLarge, foreign bool
	}{
		{"", 0, false, false},
		{"kind: Pod\n", 100, false, false},
		{"kind: Pod\n", MaxLength - 1, false, false},
		{"kind: Pod\n", MaxLength, true, false},
		{"# web\n---\napiVersion: v1\n", MaxLength + 1, true, false},
		{`{"apiVersion": "v1"`, MaxLength + 1, true, false},
		{"k\x00i\x00n\x00d\x00:\x00 \x00P\x00o\x00d\x00", MaxLength, true, false},
		{"\x1f\x8b\x08", MaxLength, true, true},
		{strings.Repeat("# a comment\n", beginning) + "kind: Pod\n", 2 * MaxLength, true, true},
	} {
		t.Run(fmt.Sprintf("%.20q and %d", test.start, test.size), func(t *testing.T) {
			for _, expected := range []int64{0, 10, int64(test.size), 1 << 60} {
				text := make([]byte, test.size)
				copy(text, test.start)
				data, err := Read(bytes.NewReader(text), expected)
				refused, _ := errors.AsType[*Error](err)
				if (refused != nil) != test.tooLarge || (err == nil && len(data) != test.size) {
					t.Fatalf("%d bytes expected: gave %d and %v", expected, len(data), err)
				}
				if test.tooLarge && (refused.Reason != ReasonTooLarge || refused.Foreign != test.foreign) {
					t.Errorf("%d bytes expected: got %s, foreign %t", expected, refused.Reason, refused.Foreign)
				}
			}
		})
	}
}

// The time to refuse a pod with very many faults is proportional to its size. The message
// has some of the faults.
func TestManyFaults(t *testing.T) {
	const containers = 20_000 // joining all of their faults took minutes
	data := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{}` + strings.Repeat(",{}", containers-1) + `]}}`
	_, _, err := NewDecoder("node1").DecodeFile("/m/f", []byte(data))
	if err == nil {
		t.Fatal("it was taken")
	}
	message := err.Error()
	if len(message) > 4096 || !strings.Contains(message, "spec.containers[0].name: Required value") || !strings.HasSuffix(message, " more") {
		t.Errorf("the message has %d bytes: %.5000s", len(message), message)
	}
	if e, _ := errors.AsType[*Error](err); len(e.Faults) != yamlfault.MaxFaults+1 {
		t.Errorf("%d faults are kept", len(e.Faults))
	}
}

func TestTooManyItems(t *testing.T) {
	list := func(n int) []byte {
		return []byte(`{"apiVersion":"v1","kind":"PodList","items":[{}` + strings.Repeat(",{}", n-1) + `]}`)
	}
	decoder := NewDecoder("node1")
	items, err := decoder.DecodeURL("http://example.com/", list(maxItems))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range items {
		if n++; n == 3 { // the rest is not decoded
			break
		}
	}
	for _, n := range []int{maxItems + 1, 3_000_000} {
		if _, err = decoder.DecodeURL("http://example.com/", list(n)); err == nil || !strings.Contains(err.Error(), "at most 50000 pods") {
			t.Errorf("%d items: %v", n, err)
		}
	}
}
