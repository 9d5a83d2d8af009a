package metamorphic

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// world is the merge, the journal with its log, and the access rules, joined as the daemon joins them.
type world struct {
	top, dir string
	starts   int
	updates  int // the limit of the ring
	model    *model

	disk     *disk
	channels map[string]chan<- config.SourceSet
	log      *store.Log
	journal  *journal.Journal
	gate     *view.Gate
	// rulesUntil is the last revision that was read with other rules than the present ones.
	rulesUntil int64

	ctx           context.Context //nolint:containedctx // the life of one process
	stopMerge     context.CancelFunc
	stopLog       context.CancelFunc
	merging, rest sync.WaitGroup
}

// start starts the process on what its directory has.
func (w *world) start() error {
	w.disk = newDisk()
	log, recovered, err := store.Open(store.Options{Dir: w.dir, Node: "node", FS: w.disk, BootID: "boot", SegmentBytes: 8 << 10})
	if err != nil {
		return err
	}
	w.log = log
	w.journal = journal.New(journal.Options{Sources: sourceNames, MaxUpdates: w.updates, Store: log, Recovered: &recovered.Recovered})
	w.gate = view.NewGate(w.journal, access.NewPolicy(w.model.rules))
	w.gate.Distrust(w.rulesUntil)
	podConfig := config.NewPodConfig()
	w.channels = make(map[string]chan<- config.SourceSet)
	pods := w.journal.State().Pods
	for _, source := range sourceNames {
		w.channels[source] = podConfig.Channel(source)
		if !w.journal.Sources()[source].Seen {
			continue
		}
		var restored []*v1.Pod
		for _, p := range pods {
			if p.Source == source {
				restored = append(restored, p.Merged)
			}
		}
		podConfig.Restore(source, restored)
	}
	logCtx, stopLog := context.WithCancel(context.Background())
	mergeCtx, stopMerge := context.WithCancel(context.Background())
	w.ctx, w.stopMerge, w.stopLog = logCtx, stopMerge, stopLog
	w.rest.Go(func() { _ = log.Run(logCtx) })
	w.rest.Go(func() { _ = w.journal.Run(logCtx) })
	w.merging.Go(func() { _ = podConfig.Run(mergeCtx) })
	w.merging.Go(func() {
		for u := range podConfig.Updates() {
			w.journal.Append(u)
		}
	})
	return nil
}

// stop ends the process, as SIGTERM does.
func (w *world) stop() {
	w.stopMerge()
	w.merging.Wait()
	w.stopLog()
	w.rest.Wait()
}

// settle waits until all that was sent has been handled.
func (w *world) settle() {
	time.Sleep(time.Second) //nolint:forbidigo // virtual time
	synctest.Wait()
}

// deliver sends the set of a source.
func (w *world) deliver(source string, set []pod) {
	objects := make([]*v1.Pod, len(set))
	for i, p := range set {
		objects[i] = p.object()
	}
	w.channels[source] <- config.SourceSet{Pods: objects}
	w.settle()
}

// setRules replaces the access rules.
func (w *world) setRules(rules []access.Rule) {
	w.model.rules = rules
	w.rulesUntil = w.gate.SetPolicy(access.NewPolicy(rules))
	w.settle()
}

// restart ends the process and starts it again. After a kill, it finds the files as they were. What was
// stored is there at once; the sources deliver the rest.
func (w *world) restart(kill bool) error {
	stored, instance := w.log.Status().Err == nil, w.journal.Instance()
	next := w.dir
	if kill {
		w.starts++
		next = filepath.Join(w.top, fmt.Sprint(w.starts))
		if err := os.CopyFS(next, os.DirFS(w.dir)); err != nil {
			return err
		}
	}
	w.stop()
	w.dir = next
	if err := w.start(); err != nil {
		return err
	}
	w.settle()
	restored := show(w.current())
	switch want := show(w.model.view(nil, view.Selector{}, false)); {
	case stored && (restored != want || w.journal.Instance() != instance):
		return fmt.Errorf("instance %s became %s, with\n%s\nwant\n%s", instance, w.journal.Instance(), restored, want)
	case !stored && !w.model.earlier[restored]:
		return fmt.Errorf("the restored state was never current:\n%s", restored)
	}
	if !stored {
		for source, set := range maps.All(w.model.sets) {
			w.deliver(source, set)
		}
	}
	return nil
}

// current returns the state of the journal.
func (w *world) current() map[string]string {
	held := make(map[string]string)
	for _, p := range w.journal.State().Pods {
		held[string(p.Object.UID)] = showObject(p.Source, p.Object)
	}
	return held
}
