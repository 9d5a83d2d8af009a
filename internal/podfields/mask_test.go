package podfields

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func mask(t *testing.T, paths ...string) *Mask {
	t.Helper()
	m, err := ParseMask(paths)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func testPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "n", UID: "u", ResourceVersion: "7", CreationTimestamp: metav1.Unix(1, 0),
			Labels: map[string]string{"app": "web", "example.com/x.y": "1"},
		},
		Spec: v1.PodSpec{
			NodeName: "node1",
			Containers: []v1.Container{
				{
					Name: "c", Image: "i", Env: []v1.EnvVar{{Name: "E", Value: "secret"}},
					Resources:     v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("100m")}},
					LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}}, PeriodSeconds: 3},
				},
				{Name: "d", Image: "j"},
			},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "k"}}},
			Volumes:             []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}}}},
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, PodIPs: []v1.PodIP{{IP: "10.0.0.1"}},
			ContainerStatuses: []v1.ContainerStatus{{Name: "c", RestartCount: 2}},
		},
	}
}

func TestMasks(t *testing.T) {
	const identity = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u"}`
	for _, c := range []struct{ paths, want string }{
		{"metadata.name", identity + "}"},
		{"kind", identity + "}"},
		{"spec.nodeName", identity + `,"spec":{"nodeName":"node1"}}`},
		{"spec.containers.name", identity + `,"spec":{"containers":[{"name":"c"},{"name":"d"}]}}`},
		{"spec.containers.env.name,spec.containers.image", identity + `,"spec":{"containers":[{"env":[{"name":"E"}],"image":"i"},{"image":"j"}]}}`},
		{"spec.containers.livenessProbe.httpGet.port,spec.containers.livenessProbe.periodSeconds", identity + `,"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":80},"periodSeconds":3}},{}]}}`},
		{"spec.containers.resources.limits['cpu']", identity + `,"spec":{"containers":[{"resources":{"limits":{"cpu":"100m"}}},{}]}}`},
		{"spec.ephemeralContainers.image", identity + `,"spec":{"ephemeralContainers":[{"image":"k"}]}}`},
		{"spec.volumes.hostPath.path", identity + `,"spec":{"volumes":[{"hostPath":{"path":"/x"}}]}}`},
		{"status.phase,status.podIPs,status.podIPs.ip", identity + `,"status":{"phase":"Running","podIPs":[{"ip":"10.0.0.1"}]}}`},
		{"status.containerStatuses.ready,status.containerStatuses.restartCount", identity + `,"status":{"containerStatuses":[{"ready":false,"restartCount":2}]}}`},
		{"metadata.labels['app']", `{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"app":"web"},"name":"a","namespace":"n","uid":"u"}}`},
		{"metadata.labels['example.com/x.y'],metadata.labels['none']", `{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"example.com/x.y":"1"},"name":"a","namespace":"n","uid":"u"}}`},
		{"metadata.annotations", identity + "}"},
		{"metadata.creationTimestamp", `{"kind":"Pod","apiVersion":"v1","metadata":{"creationTimestamp":"1970-01-01T00:00:01Z","name":"a","namespace":"n","uid":"u"}}`},
		{"status.message", identity + "}"},
	} {
		t.Run(c.paths, func(t *testing.T) {
			m := mask(t, strings.Split(c.paths, ",")...)
			pod := testPod()
			got := m.Apply(pod)
			data, err := m.JSON(got)
			if err != nil || string(data) != c.want {
				t.Errorf("%s: %v\n got %s\nwant %s", c.paths, err, data, c.want)
			}
			var decoded v1.Pod
			if err := json.Unmarshal(data, &decoded); err != nil {
				t.Errorf("%s: %v", c.paths, err)
			}
			if diff := cmp.Diff(testPod(), pod); diff != "" {
				t.Errorf("%s: the pod was changed: %s", c.paths, diff)
			}
		})
	}
}

// A mask of everything loses nothing.
func TestMaskOfEverything(t *testing.T) {
	m := mask(t, "metadata", "spec", "status", "kind", "apiVersion")
	if got := m.Apply(testPod()); !reflect.DeepEqual(got, testPod()) {
		t.Errorf("%s", cmp.Diff(testPod(), got))
	}
	data, err := m.JSON(testPod())
	if err != nil {
		t.Fatal(err)
	}
	var got v1.Pod
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.TypeMeta = (metav1.TypeMeta{}); !reflect.DeepEqual(got.Spec.Containers[1], testPod().Spec.Containers[1]) || got.Name != "a" || got.Status.Phase != v1.PodRunning {
		t.Errorf("%s", data)
	}
}

// The order of paths and paths that others cover make no difference.
func TestKeysOfMasks(t *testing.T) {
	a := mask(t, "spec", "status.phase", "spec.containers.name", "metadata.name", "status.phase")
	if b := mask(t, "status.phase", "spec"); a.Key() != b.Key() {
		t.Error("two masks for the same have different keys")
	}
	if a.Key() == mask(t, "spec").Key() || a.Key() == (*Mask)(nil).Key() {
		t.Error("two different masks have the same key")
	}
	if m := mask(t); m != nil {
		t.Errorf("no paths are %v", m)
	}
	both := mask(t, "status.podIP", "status.podIPs")
	if data, err := both.JSON(both.Apply(testPod())); err != nil || !strings.Contains(string(data), "10.0.0.1") {
		t.Errorf("%s, %v", data, err)
	}
}

func TestInvalidMasks(t *testing.T) {
	for path, want := range map[string]string{
		"spec.continers.name":          `"spec.continers.name": spec has no field "continers": did you mean "containers"?`,
		"spec.containers.imgae":        `"spec.containers.imgae": spec.containers has no field "imgae": did you mean "image"?`,
		"Spec":                         `"Spec": a pod has no field "Spec": did you mean "spec"?`,
		"metdata.name":                 `did you mean "metadata"?`,
		"zzzzzzzz":                     `"zzzzzzzz": a pod has no field "zzzzzzzz"`,
		"spec.nodeName.x":              `"spec.nodeName.x": spec.nodeName has no fields`,
		"metadata.creationTimestamp.x": `metadata.creationTimestamp has no fields`,
		"metadata.labels.app":          `metadata.labels is a map: select a key as in metadata.labels['app']`,
		"spec['x']":                    `"spec['x']": spec is not a map`,
		"metadata.labels['a'].b":       `a value of metadata.labels has no fields`,
		"":                             `"" is not a field: expected names separated by dots`,
		"spec.":                        `"spec." is not a field`,
		".spec":                        `".spec" is not a field`,
		"metadata.labels['a":           `is not a field`,
		"metadata.labels['a']x":        `is not a field`,
		"metadata.labels['']":          `is not a field`,
		"spec.containers[0].name":      `is not a field`,
	} {
		t.Run(path, func(t *testing.T) {
			if m, err := ParseMask([]string{path}); err == nil || m != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", path, err, want)
			}
		})
	}
	if _, err := ParseMask(make([]string, maxPaths+1)); err == nil || !strings.Contains(err.Error(), "257 fields are too many") {
		t.Error(err)
	}
}
