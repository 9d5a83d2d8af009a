package merge

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// Sources are the sources of the sequences.
var Sources = []string{"api", "file", "http"}

// Modes are the notification modes. Results have one list of updates for each, in this order.
var Modes = []view.Mode{view.IncrementalMode, view.SnapshotAndUpdatesMode, view.SnapshotMode}

// Podconfigd is podconfigd's merger and journal, with a subscriber in each mode. It runs in a bubble
// of testing/synctest, until the context ends.
type Podconfigd struct {
	channels map[string]chan<- config.SourceSet
	frames   []chan *view.Frame
	running  sync.WaitGroup
	sent     map[string]map[Pod]*v1.Pod
	copies   map[*v1.Pod]*v1.Pod
}

// Start starts it.
func Start(ctx context.Context) *Podconfigd {
	podConfig := config.NewPodConfig()
	d := &Podconfigd{
		channels: make(map[string]chan<- config.SourceSet), sent: make(map[string]map[Pod]*v1.Pod),
		copies: make(map[*v1.Pod]*v1.Pod),
	}
	for _, source := range Sources {
		d.channels[source] = podConfig.Channel(source)
		d.sent[source] = make(map[Pod]*v1.Pod)
	}
	j := journal.New(journal.Options{Sources: Sources})
	d.running.Go(func() { _ = podConfig.Run(ctx) })
	d.running.Go(func() {
		for u := range podConfig.Updates() {
			j.Append(u)
		}
	})
	for _, mode := range Modes {
		frames := make(chan *view.Frame, 1000)
		d.frames = append(d.frames, frames)
		cursor := view.Stream(j, view.StreamOptions{Mode: mode})
		d.running.Go(func() {
			defer cursor.Close()
			for {
				next, err := cursor.Next(ctx)
				if err != nil {
					return
				}
				for _, f := range next {
					frames <- f
				}
			}
		})
	}
	return d
}

// Wait waits for its end, after the end of the context.
func (d *Podconfigd) Wait() { d.running.Wait() }

// pods returns the pods of the set: with the same pointers as before, or with new ones.
func (d *Podconfigd) pods(s Step) []*v1.Pod {
	pods := make([]*v1.Pod, len(s.Pods))
	for i, p := range s.Pods {
		pods[i] = d.sent[s.Source][p]
		if pods[i] == nil || !s.Same {
			pods[i] = p.Object()
			d.copies[pods[i]] = pods[i].DeepCopy()
			d.sent[s.Source][p] = pods[i]
		}
	}
	return pods
}

// Merge returns the updates for the set in each mode.
func (d *Podconfigd) Merge(s Step) (updates [][]Update, err error) {
	d.channels[s.Source] <- config.SourceSet{Pods: d.pods(s)}
	synctest.Wait()
	for i, frames := range d.frames {
		updates = append(updates, nil)
		for len(frames) > 0 {
			f := <-frames
			switch {
			case f.Op == config.BOOKMARK && f.Reset:
				return nil, fmt.Errorf("%s: a reset: %s", Modes[i], f.Message)
			case f.Op == config.BOOKMARK:
				continue
			}
			objects := make([]*v1.Pod, len(f.Pods))
			for j, p := range f.Pods {
				objects[j] = p.Object
			}
			one, err := Normalize(f.Op.String(), f.Source, objects)
			if err != nil {
				return nil, fmt.Errorf("podconfigd: %w", err)
			}
			updates[i] = append(updates[i], one)
		}
	}
	return updates, nil
}

// Unwritten returns an error if a pod was written to after it was sent.
func (d *Podconfigd) Unwritten() error {
	for p, was := range d.copies {
		if !reflect.DeepEqual(p, was) {
			return fmt.Errorf("a pod of a source was written to:\n%s", gocmp.Diff(was, p))
		}
	}
	return nil
}
