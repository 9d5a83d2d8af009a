package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/config"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
	"github.com/podconfigd/podconfigd/test/testutil"
)

const node = types.NodeName("node1")

type noSLI struct{}

func (noSLI) ObservedPodOnWatch(klog.Logger, *v1.Pod, time.Time) {}

// kubeletPods returns the pods of the kubelet's file source for a path.
func kubeletPods(t *testing.T, path string) []*v1.Pod {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	defer cancel()
	cfg := kubeletconfig.NewPodConfig(&record.FakeRecorder{}, noSLI{})
	kubeletconfig.NewSourceFile(klog.Logger{}, path, node, time.Hour, cfg.Channel(ctx, "file"))
	return (<-cfg.Updates()).Pods
}

// ourPods returns the pods of podconfigd's.
func ourPods(t *testing.T, path string) []*v1.Pod {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := config.NewPodConfig()
	source := file.New(file.Options{Path: path, Decoder: manifest.NewDecoder(node)})
	sets := cfg.Channel("file")
	var running sync.WaitGroup
	running.Go(func() { _ = cfg.Run(ctx) })
	running.Go(func() { _ = source.Run(ctx, sets) })
	defer running.Wait()
	defer cancel()
	return (<-cfg.Updates()).Pods
}

// byName returns the pods without the time at which they were first seen.
func byName(pods []*v1.Pod) map[string]*v1.Pod {
	named := make(map[string]*v1.Pod)
	for _, p := range pods {
		p = p.DeepCopy()
		delete(p.Annotations, config.ConfigFirstSeenAnnotationKey)
		named[p.Namespace+"/"+p.Name] = p
	}
	return named
}

// compare compares all fields of the pods of a path, and returns their names.
func compare(t *testing.T, path string) []string {
	t.Helper()
	theirs, ours := byName(kubeletPods(t, path)), byName(ourPods(t, path))
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("pods (-kubelet +podconfigd):\n%.4000s", diff)
	}
	names := make([]string, 0, len(ours))
	for name := range ours {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const podHead = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  containers: [{name: c, image: i}]\n"

// The names of the manifests below say whether they are good. So the test can't pass if
// none is accepted.
func TestManifestsGiveTheKubeletsPods(t *testing.T) {
	dir := t.TempDir()
	examples, err := filepath.Glob("../../examples/manifests/*")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range examples {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		testutil.WriteFile(t, filepath.Join(dir, filepath.Base(path)), string(data))
	}
	want := len(examples)
	for i, spec := range []string{
		"",
		"  hostNetwork: true\n  dnsPolicy: ClusterFirstWithHostNet\n",
		"  restartPolicy: Never\n  activeDeadlineSeconds: 5\n  terminationGracePeriodSeconds: 0\n",
		"  securityContext: {runAsUser: 1, fsGroup: 2, seccompProfile: {type: RuntimeDefault}}\n",
		"  tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 3}, {operator: Exists}]\n",
		"  volumes: [{name: e, emptyDir: {medium: Memory, sizeLimit: 1Mi}}, {name: h, hostPath: {path: /}}]\n",
		"  initContainers: [{name: i, image: j, restartPolicy: Always}]\n",
		"  hostAliases: [{ip: 1.2.3.4, hostnames: [a]}]\n  hostname: h\n  subdomain: s\n",
		"  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: In, values: [v]}]}]}}}\n",
		"  overhead: {cpu: 1m}\n  runtimeClassName: r\n",
		"  topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]\n",
		"  volumes: [{name: d, downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.labels}}]}}]\n",
		"  automountServiceAccountToken: false\n  enableServiceLinks: false\n  shareProcessNamespace: true\n",
		"  unknownField: 5\n",
		"---\nkind: Other\n",
	} {
		testutil.WriteFile(t, filepath.Join(dir, fmt.Sprintf("accepted-%02d.yaml", i)), fmt.Sprintf(podHead, fmt.Sprintf("accepted-%02d", i))+spec)
		want++
	}
	for i, data := range odd("odd") {
		testutil.WriteFile(t, filepath.Join(dir, fmt.Sprintf("odd-%02d.yaml", i)), strings.ReplaceAll(data, "odd", fmt.Sprintf("odd-%02d", i)))
		want++
	}
	testutil.WriteFile(t, filepath.Join(dir, "utf16.yaml"), utf16le(fmt.Sprintf(podHead, "utf16")))
	want++
	testutil.WriteFile(t, filepath.Join(dir, "accepted-uid.yaml"), strings.Replace(fmt.Sprintf(podHead, "uid"), "{name: uid}", "{name: uid, uid: own, namespace: ns, annotations: {a: b}, labels: {c: d}}", 1))
	want++
	for i, data := range []string{
		"", "x: [", "kind: Pod", "apiVersion: v1\nkind: List\nitems: []", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}",
		fmt.Sprintf(podHead, "Upper"), fmt.Sprintf(podHead, "sa") + "  serviceAccountName: s\n",
		fmt.Sprintf(podHead, "secret") + "  volumes: [{name: v, secret: {secretName: s}}]\n",
		fmt.Sprintf(podHead, "cm") + "  volumes: [{name: v, configMap: {name: s}}]\n",
		fmt.Sprintf(podHead, "pvc") + "  volumes: [{name: v, persistentVolumeClaim: {claimName: s}}]\n",
		fmt.Sprintf(podHead, "rc") + "  resourceClaims: [{name: r, resourceClaimName: c}]\n",
		fmt.Sprintf(podHead, "ctb") + "  volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: b, path: p}}]}}]\n",
		fmt.Sprintf(podHead, "pull") + "  imagePullSecrets: [{name: s}]\n",
		fmt.Sprintf(podHead, "restart") + "  restartPolicy: Sometimes\n",
		fmt.Sprintf(podHead, "port") + "  initContainers: [{name: i, image: j, ports: [{containerPort: \"80\"}]}]\n",
		"{apiVersion: v1, kind: Pod, metadata: {name: flow}, spec: {containers: [{name: c, image: i}]}}",
		fmt.Sprintf(podHead, "number") + "  hostname: 5\n", fmt.Sprintf(podHead, "half") + "  hostname: \"half",
	} {
		testutil.WriteFile(t, filepath.Join(dir, fmt.Sprintf("refused-%02d.yaml", i)), data)
	}
	testutil.WriteFile(t, filepath.Join(dir, ".hidden.yaml"), fmt.Sprintf(podHead, "hidden"))
	if got := compare(t, dir); len(got) != want {
		t.Errorf("%d pods, want %d: %v", len(got), want, got)
	}
}

// odd returns manifests of a pod with the name. They have faults that the kubelet
// ignores.
func odd(name string) []string {
	head := fmt.Sprintf(podHead, name)
	return []string{
		"\ufeff" + head,
		strings.ReplaceAll(head, "\n", "\r\n"),
		head + "  imagePullPolcy: Always\n  Containers: []\n",
		head + "  restartPolicy: Always\n  restartPolicy: Never\n",
		head + "  containers: [{name: d, image: j}]\n",
		head + "metadata: {name: " + name + ", labels: {a: b}}\n",
		"x: &x {name: c, image: i}\n" + strings.Replace(head, "[{name: c, image: i}]", "[{<<: *x, image: j}]", 1),
		`{"apiVersion":"v1","kind":"Pod","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{"hostNetwork":true},"spec":{"containers":[{"name":"c","image":"i","image":"j","x":1}]}}`,
	}
}

func utf16le(s string) string {
	b := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(s)) {
		b = append(b, byte(unit), byte(unit>>8))
	}
	return string(b)
}

// The UID depends on the spelling of the path.
func TestPathsGiveTheKubeletsUIDs(t *testing.T) {
	dir := t.TempDir()
	path := testutil.WriteFile(t, filepath.Join(dir, "web.yaml"), fmt.Sprintf(podHead, "web"))
	t.Chdir(dir)
	for _, path := range []string{dir, dir + "/", dir + "//", dir + "/.", ".", "./", path, "web.yaml", "./web.yaml", "../" + filepath.Base(dir)} {
		t.Run(path, func(t *testing.T) {
			if got := compare(t, path); len(got) != 1 {
				t.Errorf("got %v, want one pod", got)
			}
		})
	}
}
