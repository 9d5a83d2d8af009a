package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/sources/file/manifests"
)

// node is a directory of manifests, and the sandboxes that a kubelet of a minor runs of them.
type node struct {
	*testing.B
	dir       string
	names     []string
	sandboxes []*pleg.Pod
}

func newNode(b *testing.B, m manifest.Minor, n int) *node {
	b.Helper()
	w := &node{B: b, dir: b.TempDir()}
	decoder := manifest.NewDecoder("node1").For(m)
	for i := range n {
		name := fmt.Sprintf("web-%d.yaml", i)
		path := w.write(name, 0)
		pod, _, err := decoder.DecodeFile(path, w.data(name, 0))
		if err != nil {
			b.Fatal(err)
		}
		w.names = append(w.names, name)
		w.sandboxes = append(w.sandboxes, &pleg.Pod{
			UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: config.FileSource,
			Containers: []pleg.Container{{ID: name, Sandbox: true, State: pleg.StateRunning}},
		})
	}
	return w
}

// data is a pod of three containers with ten variables each.
func (w *node) data(name string, version int) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  labels: {version: v%d}\nspec:\n  containers:\n", strings.TrimSuffix(name, ".yaml"), version)
	for c := range 3 {
		fmt.Fprintf(&text, "  - name: c%d\n    image: registry.example/image:%d\n    env:\n", c, c)
		for v := range 10 {
			fmt.Fprintf(&text, "    - name: VARIABLE_%d\n      value: value-%d\n", v, v)
		}
	}
	return []byte(text.String())
}

func (w *node) write(name string, version int) (path string) {
	path = filepath.Join(w.dir, name)
	if err := os.WriteFile(path, w.data(name, version), 0o600); err != nil {
		w.Fatal(err)
	}
	return path
}

// start finds the kubelet, and reads the manifests as the file source does.
func (w *node) start(beside bool, remembered *kubelet.Memory) *manifests.Set {
	decoder := manifest.NewDecoder("node1")
	if beside {
		finder := kubelet.New(kubelet.Options{
			Decoder: decoder, Remembered: remembered, Presence: kubelet.PresenceNo,
			List: func(context.Context) ([]*pleg.Pod, error) { return w.sandboxes, nil },
		})
		finder.Ask(w.Context())
	}
	outdated := decoder.Changed()
	set := manifests.New(manifests.Options{Path: w.dir, Decoder: decoder, Impatient: true})
	set.LookAll(w.Context(), true, w.names)
	for again := true; again; {
		select {
		case <-outdated:
			outdated = decoder.Changed()
			set.Outdate()
			set.LookAgain(w.Context())
		default:
			again = false
		}
	}
	return set
}

// reportCPU starts to measure the CPU time of the process, which other programs disturb less than the time. The
// result reports it.
func reportCPU(b *testing.B) func() {
	b.Helper()
	before := cpu(b)
	return func() { b.ReportMetric(float64(cpu(b)-before)/1e3/float64(b.N), "cpu-µs/op") }
}

func cpu(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// What it costs a first set of 500 manifests to know the kubelet: nothing is to be known, it is remembered, and
// it is found.
func BenchmarkFirstSet(b *testing.B) {
	for _, m := range []manifest.Minor{manifest.Base, 36, 34} {
		w := newNode(b, m, 500)
		for what, start := range map[string]func(){
			"alone":      func() { w.start(false, nil) },
			"remembered": func() { w.start(true, &kubelet.Memory{Version: m.String(), Source: kubelet.SourceSandboxes}) },
			"found":      func() { w.start(true, nil) },
		} {
			b.Run(fmt.Sprintf("%v/%s", m, what), func(b *testing.B) {
				w.B = b
				defer reportCPU(b)()
				for b.Loop() {
					start()
				}
			})
		}
	}
}

// What it costs an edit of a manifest whose pod runs.
func BenchmarkEdit(b *testing.B) {
	for what, beside := range map[string]bool{"alone": false, "beside": true} {
		b.Run(what, func(b *testing.B) {
			w := newNode(b, manifest.Base, 10)
			set := w.start(beside, nil)
			version := 0
			defer reportCPU(b)()
			for b.Loop() {
				version++
				w.write(w.names[0], version)
				if !set.Look(b.Context(), w.names[:1]) {
					b.Fatal("nothing has changed")
				}
			}
		})
	}
}
