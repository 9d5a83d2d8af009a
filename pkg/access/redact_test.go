package access

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/testutil/canary"
)

var update = flag.Bool("update", false, "write testdata")

// filled returns a pod in which each field is set.
func filled() *v1.Pod {
	whole := new(v1.Pod)
	canary.Fill(whole, 1)
	return whole
}

// kept returns the paths of the fields that a pod has, a line each.
func kept(pod *v1.Pod) string { return strings.Join(canary.Fields(pod), "\n") + "\n" }

// Each field of a pod that a form keeps is listed in testdata. A new field of the Kubernetes API is
// in none of the lists, so it is looked at before it is shown.
func TestWhatFormsKeep(t *testing.T) {
	whole := filled()
	before := whole.DeepCopy()
	for _, level := range []Level{Redacted, Metadata} {
		form := formOf(level, nil)
		got := kept(form.Apply(whole))
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
	whole := filled()
	got := kept(formOf(Redacted, nil).Apply(whole))
	for _, container := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, field := range []string{
			".command[]", ".args[]", ".env[].value\n", ".livenessProbe.exec.", ".readinessProbe.exec.", ".startupProbe.exec.",
			".lifecycle.postStart.exec.", ".lifecycle.preStop.exec.", ".livenessProbe.httpGet.httpHeaders", ".readinessProbe.httpGet.httpHeaders",
			".lifecycle.postStart.httpGet.httpHeaders", ".livenessProbe.httpGet.path\n", ".securityContext.windowsOptions.gmsaCredentialSpec\n",
		} {
			if strings.Contains(got, "spec."+container+"[]"+field) {
				t.Errorf("%s%s is shown", container, field)
			}
		}
		for _, field := range []string{".env[].name\n", ".env[].valueFrom.secretKeyRef.name\n", ".envFrom[].secretRef.name\n", ".image\n", ".livenessProbe.httpGet.path (without query)\n"} {
			if !strings.Contains(got, "spec."+container+"[]"+field) {
				t.Errorf("%s%s is not shown", container, field)
			}
		}
	}
	for _, field := range []string{"metadata.annotations", "metadata.managedFields", "csi.volumeAttributes", "flexVolume.options", "userAnnotations", "gitRepo.repository", "scaleIO.gateway", "azureDisk.diskURI"} {
		if strings.Contains(got, field) {
			t.Errorf("%s is shown", field)
		}
	}
	for _, field := range []string{"status.containerStatuses[].state.terminated.message", "status.initContainerStatuses[].lastState.terminated.message", "status.containerStatuses[].state.waiting.message"} {
		if strings.Contains(got, field) || strings.Contains(kept(formOf(Metadata, nil).Apply(whole)), field) {
			t.Errorf("%s is shown", field)
		}
	}
}

// The view metadata has of a container what says whether it runs, and nothing of its spec but the
// name.
func TestWhatMetadataHides(t *testing.T) {
	got := kept(formOf(Metadata, nil).Apply(filled()))
	for _, part := range []string{"essage", "olume", "user", "esources", "laims", "qosClass", "stopSignal", "ports", "env", "annotations", "ownerReferences"} {
		if strings.Contains(got, part) {
			t.Errorf("something with %q is shown", part)
		}
	}
	for _, field := range []string{
		"status.phase", "status.podIPs[].ip", "status.conditions[].reason", "status.containerStatuses[].containerID", "status.containerStatuses[].imageID",
		"status.initContainerStatuses[].restartCount", "status.ephemeralContainerStatuses[].lastState.terminated.exitCode", "spec.containers[].name",
	} {
		if !strings.Contains(got, field+"\n") {
			t.Errorf("%s is not shown", field)
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
