package file

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// runs is a kubelet of a minor that runs a pod. Its version is found when the pod is decoded.
type runs struct {
	decoder *manifest.Decoder
	name    string
	uid     types.UID
	once    sync.Once
}

func (r *runs) Decoded(name types.NamespacedName, _ string, _ types.UID, _ time.Duration) types.UID {
	if name.Name == r.name {
		return r.uid
	}
	return ""
}

func (r *runs) Identified(_ types.NamespacedName, _ types.UID, by manifest.Minor) bool {
	r.once.Do(func() { r.decoder.Use(by) })
	return false
}

// uids returns the UIDs of pods by the rules of a minor.
func uids(t *testing.T, m manifest.Minor, dir string) map[string]types.UID {
	t.Helper()
	all := make(map[string]types.UID)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pod, _, err := manifest.NewDecoder("node1").For(m).DecodeFile(file, data)
		if err != nil {
			t.Fatal(err)
		}
		all[pod.Name] = pod.UID
	}
	return all
}

func expectUIDs(t *testing.T, pods []*v1.Pod, want map[string]types.UID) {
	t.Helper()
	if len(pods) != len(want) {
		t.Errorf("%d pods, want %d", len(pods), len(want))
	}
	for _, pod := range pods {
		if pod.UID != want[pod.Name] {
			t.Errorf("%s has UID %s, want %s", pod.Name, pod.UID, want[pod.Name])
		}
	}
}

// The first set has the UIDs of the kubelet, although its version is found only when one of the manifests
// is decoded. When the version changes, all pods get new UIDs in one set. A broken manifest keeps its pod.
func TestKubeletVersion(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(podtest.Manifest(name, "1")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kubelet := &runs{decoder: manifest.NewDecoder("node1"), name: "e-node1"}
	kubelet.uid = uids(t, 34, dir)["e-node1"]
	kubelet.decoder.Compare(kubelet)
	h := run(t, dir, Options{Decoder: kubelet.decoder})
	expectUIDs(t, h.next().Pods, uids(t, 34, dir))

	later, last := uids(t, 36, dir), uids(t, 37, dir)
	kubelet.decoder.Use(36)
	expectUIDs(t, h.next().Pods, later)

	held := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(held, []byte("kind: ["), 0o644); err != nil {
		t.Fatal(err)
	}
	h.waitForStatus(func(s v1alpha1.SourceStatus) bool { return s.File.Manifests[0].State == v1alpha1.ManifestHeld })
	last["a-node1"] = later["a-node1"]
	kubelet.decoder.Use(37)
	expectUIDs(t, h.next().Pods, last)
}

// order notes the UIDs in the order in which pods are decoded.
type order struct {
	mu   sync.Mutex
	uids []types.UID
}

func (o *order) Decoded(_ types.NamespacedName, _ string, uid types.UID, _ time.Duration) types.UID {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uids = append(o.uids, uid)
	return ""
}

func (o *order) Identified(types.NamespacedName, types.UID, manifest.Minor) bool { return false }

// When all manifests are decoded again, a file whose pod has its name from another file is decoded after that one,
// also if its name is before it.
func TestShadowedFilesAreDecodedLast(t *testing.T) {
	dir := t.TempDir()
	decoder, o := manifest.NewDecoder("node1"), new(order)
	decoder.Compare(o)
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: %q}]}\n"
	testutil.WriteFile(t, filepath.Join(dir, "b.yaml"), fmt.Sprintf(pod, "1"))
	h := run(t, dir, Options{Decoder: decoder})
	served := h.expect("web=1")[0].UID
	// One event: after a second one, the file can be decoded between the reset of the order and Again, which has nothing to do then.
	if err := os.Rename(testutil.WriteFile(t, filepath.Join(t.TempDir(), "a.yaml"), fmt.Sprintf(pod, "2")), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	h.verdict("a.yaml", v1alpha1.ManifestShadowed, "taken by b.yaml")
	o.mu.Lock()
	o.uids = nil
	o.mu.Unlock()
	decoder.Redecode()
	testutil.Eventually(t, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if at := slices.Index(o.uids, served); at < 0 || at == len(o.uids)-1 {
			return fmt.Errorf("decoded %v, want another after %s, which is served", o.uids, served)
		}
		return nil
	})
}
