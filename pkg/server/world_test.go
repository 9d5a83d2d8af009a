package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/owners"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil/canary"
)

// world is a daemon with a state directory. It has pods in which each field is set and which are shown by
// one view, and the pod seen, which is shown in full.
type world struct {
	*daemon

	level access.Level
	// replaced is the UID of the pod replaced, journeys the number of journeys.
	replaced string
	journeys int
	// resume is the request of a stream that goes on before the restart; empty without one.
	resume string
}

// filledNames are the pods in which each field is set. The pod orphan is only in the runtime.
var filledNames = []string{"edited", "replaced", "removed", "orphan"}

// filledPod returns a version of such a pod.
func filledPod(name, uid string, version int64) *v1.Pod {
	p := new(v1.Pod)
	canary.Fill(p, version)
	p.TypeMeta = metav1.TypeMeta{}
	p.Namespace, p.Name, p.UID = "default", name, types.UID(uid)
	p.Labels["filled"] = "true"
	return p
}

// filledRules show the filled pods by a view, and all others in full.
func filledRules(level access.Level) *access.Policy {
	return access.NewPolicy([]access.Rule{
		{LabelSelector: labels.SelectorFromSet(labels.Set{"filled": "true"}), View: level},
		{Namespaces: []string{"orphans"}, View: level},
		{View: access.Full},
	})
}

// narrowerThan show the filled pods less.
func narrowerThan(level access.Level) *access.Policy {
	if level > access.Metadata {
		return filledRules(level - 1)
	}
	return access.NewPolicy([]access.Rule{
		{Namespaces: []string{"orphans"}, View: access.None},
		{LabelSelector: labels.SelectorFromSet(labels.Set{"filled": "true"}), View: access.None},
		{View: access.Full},
	})
}

// filledRuntime has a container of the pod edited.
type filledRuntime struct{ recorded }

func (filledRuntime) FindContainer(id string) (pleg.Found, bool) {
	return pleg.Found{UID: "edited", Namespace: "default", Name: "edited", Container: pleg.Container{ID: id, Name: "c"}}, id == strings.Repeat("c", 64)
}

// ownersInAPI returns the owners of a pod as if it came from the apiserver.
func ownersInAPI(pod *journal.Pod) []v1alpha1.Owner {
	return owners.New(owners.Options{}).Of(journal.NewPod(config.ApiserverSource, pod.Object))
}

// newWorld starts the daemon on a state directory.
func newWorld(t *testing.T, dir string, level access.Level) *world {
	t.Helper()
	log, recovered, err := store.Open(store.Options{Dir: dir, Node: "node1", BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	w := &world{level: level, replaced: "replaced-1"}
	w.daemon = serveWithLimits(t, journal.Options{Sources: []string{"file"}, Store: log, Recovered: &recovered.Recovered}, conn.Limits{}, func(o *Options) {
		go func() { done <- log.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
		o.Policy = filledRules(level)
		l := lookup.New(lookup.Options{Journal: o.Journal, Runtime: filledRuntime{}, Owners: ownersInAPI, Devices: devicesOf("edited", "canary:device;1?query")})
		o.Lookup, o.Owners = l, true
		o.Journal.SetOwners(ownersInAPI)
		streamContainers(t, o, "edited", "replaced-1", "seen")
		go func() { done <- l.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
		o.History = func(h history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] { return history.Read(dir, h) }
		o.Runtime = func() v1alpha1.RuntimePods {
			return v1alpha1.RuntimePods{Pods: []v1alpha1.RuntimePod{{UID: "edited", Namespace: "default", Name: "edited"}}}
		}
		o.Resync = func(context.Context, string, string) error { return errors.New("not now") }
		o.Release = func(context.Context, string, *int) error { return nil }
	})
	if recovered.Resumed {
		w.resume = fmt.Sprintf("stream/v1alpha1/updates?instance=%s&since=%d", recovered.Instance, recovered.Base.Revision())
		w.put(config.ADD, false)
	} else {
		w.put(config.ADD, false, filledPod("edited", "edited", 1), filledPod("replaced", w.replaced, 1), podWith("seen", "1"))
	}
	w.await(t, "")
	return w
}

// put appends an update of the source file.
func (w *world) put(op config.PodOperation, more bool, pods ...*v1.Pod) {
	u := config.PodUpdate{Op: op, Source: "file", Pods: append([]*v1.Pod{}, pods...), More: more}
	for _, p := range pods {
		file := &config.File{Path: "canary:file.path;1?query", Mode: 0o640}
		if p.Name == "seen" {
			file.Path = "seen.yaml"
		}
		u.Files = append(u.Files, file)
	}
	w.journal.Append(u)
}

// await waits until the journal shows the pod seen with a label.
func (w *world) await(t *testing.T, label string) {
	t.Helper()
	for {
		now, err := w.journal.After(w.journal.Revision(), nil, 1)
		for _, p := range w.journal.State().Pods {
			if p.Object.Name == "seen" && (label == "" || p.Object.Labels["app"] == label) {
				return
			}
		}
		if err != nil || now.Changed == nil {
			continue
		}
		select {
		case <-now.Changed:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// journey changes the filled pods by each operation and for each reason but a reload. It returns a mark,
// which is in the last change.
func (w *world) journey() (mark string) {
	ctx := context.Background()
	w.put(config.UPDATE, false, filledPod("edited", "edited", 2))
	mixed := filledPod("edited", "edited", 2)
	mixed.Status = filledPod("edited", "edited", 1).Status
	w.put(config.RECONCILE, false, mixed)
	w.put(config.SYNC, false, mixed)
	w.journal.RecordEvent(mixed, &v1alpha1.Event{PodUID: "edited", Type: string(pleg.ContainerDied), ContainerID: "c"})
	orphan := filledPod("orphan", "orphan", int64(w.journeys))
	orphan.Namespace = "orphans"
	w.journal.HandlePodOrphans(ctx, []*v1.Pod{orphan})
	w.put(config.DELETE, false, filledPod("edited", "edited", 1))

	was, is := w.replaced, "replaced-1"
	if was == is {
		is = "replaced-2"
	}
	w.replaced = is
	w.put(config.REMOVE, true, filledPod("replaced", was, 1))
	w.put(config.ADD, false, filledPod("replaced", is, 2))
	w.put(config.ADD, false, filledPod("removed", "removed", 1))
	w.put(config.REMOVE, false, filledPod("removed", "removed", 1))
	return w.mark()
}

// mark changes the pod seen.
func (w *world) mark() string {
	w.journeys++
	mark := fmt.Sprintf("journey-%d-over", w.journeys)
	w.put(config.UPDATE, false, podWith("seen", mark))
	return mark
}

// narrow replaces the rules by narrower ones, and widen restores them.
func (w *world) narrow() (mark string) {
	w.server.SetPolicy(narrowerThan(w.level))
	return w.mark()
}

func (w *world) widen() (mark string) {
	w.server.SetPolicy(filledRules(w.level))
	return w.mark()
}
