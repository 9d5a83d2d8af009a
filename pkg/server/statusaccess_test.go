package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil/canary"
)

// serveFullStatus serves the pod seen of file, and a status in which each field is set. It has a
// verdict on the pod, one on another pod, and a problem of each.
func serveFullStatus(t *testing.T, rules ...access.Rule) *daemon {
	t.Helper()
	var status v1alpha1.Status
	canary.Fill(&status, 1)
	status.NodeName, status.Instance = "node1", "instance"
	file, uid := &status.Sources[0], uint32(4294960000)
	file.Name = "file"
	for _, manifests := range []*[]v1alpha1.Manifest{&file.File.Manifests, &file.HTTP.Manifests} {
		seen := (*manifests)[0]
		seen.Namespace, seen.Name, seen.UID, seen.State, seen.Reason = "default", "seen", "seen", v1alpha1.ManifestHeld, "Reason"
		*manifests = append(*manifests, seen)
	}
	file.File.Watch, status.Runtime.Endpoint, status.State.Dir = "inotify", "unix:///run/cri.sock", "/state"
	status.Kubelet.Version, status.Kubelet.Source, status.Kubelet.Rules = "v1.36.3", "sandboxes", "1.36"
	status.Kubelet.PodsAPI.Socket, status.Devices.Socket = "/pods-api.sock", "/kubelet.sock"
	problem := status.MirrorPods.Problems[0]
	problem.Namespace, problem.Name = "default", "seen"
	status.MirrorPods.Problems = append(status.MirrorPods.Problems, problem)
	status.Subscribers[0].UID = &uid
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) {
		o.Policy = access.NewPolicy(rules)
		o.Status = func() v1alpha1.Status { return status }
		o.Runtime = func() v1alpha1.RuntimePods {
			return v1alpha1.RuntimePods{Pods: []v1alpha1.RuntimePod{{UID: "orphan", Namespace: "other", Containers: make([]v1alpha1.RuntimeContainer, 3)}}}
		}
	})
	d.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{podWith("seen", "x")}})
	return d
}

// statusTexts are the texts of the status that a client sees whose rules show the pod seen, and no other.
var statusTexts = map[access.Level][]string{
	access.None:     nil,
	access.Metadata: nil,
	access.Redacted: {"sources[].api.server", "sources[].file.manifests[].path", "sources[].file.path", "sources[].http.manifests[].path", "sources[].http.url"},
	access.Full: {
		"mirrorPods.problems[].message", "sources[].api.server",
		"sources[].file.manifests[].fault.lines[]", "sources[].file.manifests[].message", "sources[].file.manifests[].path", "sources[].file.manifests[].warnings[]", "sources[].file.path",
		"sources[].http.manifests[].message", "sources[].http.manifests[].path", "sources[].http.manifests[].warnings[]", "sources[].http.url",
	},
}

// A client gets of the status what its rules show: no text of an error, no path and no number that is
// of pods which it does not see. A field that is new is not shown.
func TestStatusByView(t *testing.T) {
	for level, want := range statusTexts {
		t.Run(level.String(), func(t *testing.T) {
			rule := me(level)
			rule.Namespaces = []string{"default"}
			d := serveFullStatus(t, rule, notMe(access.Full))
			_, body := d.get(t, "/v1alpha1/status")
			grpc, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Status(t.Context(), new(podconfigd.StatusRequest))
			if err != nil {
				t.Fatal(err)
			}
			for protocol, answer := range map[string]string{"HTTP": body, "gRPC": grpc.String()} {
				if diff := cmp.Diff(want, canary.Texts(answer)); diff != "" {
					t.Errorf("over %s (-want +got):\n%s", protocol, diff)
				}
			}
			for _, number := range []string{`"held"`, `"settling"`, `"overflows"`, `"manifestsOmitted"`, `"problemsOmitted"`, `"otherUIDs"`, `"statuses":1`, `"unknownTo`, `"containers":3`} {
				if strings.Contains(body, number) {
					t.Errorf("%s is shown: %s", number, body)
				}
			}
		})
	}
}

// The lines around the fault of an item of a URL can be lines of the items beside it. A client gets them if it sees every
// pod of the source in full.
func TestLinesOfItems(t *testing.T) {
	inDefault := me(access.Full)
	inDefault.Namespaces = []string{"default"}
	elsewhere := me(access.Redacted)
	ofFile := me(access.Full)
	ofFile.Sources = []string{"file"}
	for name, test := range map[string]struct {
		rules []access.Rule
		shown bool
	}{
		"all pods":              {[]access.Rule{me(access.Full)}, true},
		"all pods of source":    {[]access.Rule{ofFile}, true},
		"pods of one namespace": {[]access.Rule{inDefault}, false},
		"the others redacted":   {[]access.Rule{inDefault, elsewhere}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, body := serveFullStatus(t, append(test.rules, notMe(access.Full))...).get(t, "/v1alpha1/status")
			texts := canary.Texts(body)
			if shown := slices.Contains(texts, "sources[].http.manifests[].fault.lines[]"); shown != test.shown {
				t.Errorf("shown: %v, want %v", shown, test.shown)
			}
			if !slices.Contains(texts, "sources[].file.manifests[].fault.lines[]") {
				t.Error("the lines of the file are not shown")
			}
		})
	}
}

// A client that sees every pod of a source sees how many of them are held.
func TestStatusOfASourceThatIsSeenWhole(t *testing.T) {
	_, body := serveFullStatus(t, me(access.Metadata)).get(t, "/v1alpha1/status")
	for _, number := range []string{`"held":{"removes":1,"pods":1,`, `"settling":1`, `"pods":1,"containers":3`} {
		if !strings.Contains(body, number) {
			t.Errorf("%s is not shown: %s", number, body)
		}
	}
	if got := canary.Texts(body); got != nil {
		t.Errorf("%q is shown", got)
	}
}
