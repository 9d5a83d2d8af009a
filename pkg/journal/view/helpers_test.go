package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil/journaltest"
)

var (
	pod       = journaltest.Pod
	update    = journaltest.Update
	appendSet = journaltest.AppendSet
)

// testJournal is a journal with its first revision.
type testJournal struct {
	*journal.Journal
	first int64
}

func newJournal(opts journal.Options) *testJournal {
	if opts.Sources == nil {
		opts.Sources = []string{"file"}
	}
	j := journal.New(opts)
	return &testJournal{j, j.Revision()}
}

// watch starts a subscription to the stream.
func (j *testJournal) watch(opts StreamOptions) *testCursor {
	return &testCursor{j, Stream(j.Journal, opts)}
}

// testCursor is a cursor with its journal.
type testCursor struct {
	of *testJournal
	*Cursor
}

// drain returns all available frames, and the error of the cursor.
func drain(c *Cursor) (frames []*Frame, err error) {
	for {
		changed, err := c.poll()
		frames = append(frames, c.out...)
		if (len(c.out) == 0 && changed != nil) || err != nil {
			return frames, err
		}
	}
}

func (c *testCursor) drain() []*Frame {
	frames, _ := drain(c.Cursor) // those of the stream have none
	return frames
}

// next returns the next frames, and fails if there are none.
func next(t *testing.T, c *testCursor) []*Frame {
	t.Helper()
	frames, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

// show returns frames in short, with revisions relative to the journal's first.
func show(j *testJournal, frames []*Frame) string {
	lines := make([]string, len(frames))
	for i, f := range frames {
		lines[i] = showFrame(j, f)
	}
	return strings.Join(lines, "\n")
}

func showFrame(j *testJournal, f *Frame) string {
	line := "-"
	if f.Revision != 0 {
		line = fmt.Sprint(f.Revision - j.first)
	}
	line += " " + f.Op.String()
	for _, p := range f.Pods {
		line += " " + p.Object.Name
		if image := p.Object.Labels["image"]; image != "" {
			line += "=" + image
		}
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"reset", f.Reset},
		{"synced", f.InitialSyncComplete},
		{"ready", f.Bookmark != nil && f.Bookmark.Ready},
		{"continues", f.Continues},
		{"restored", f.Restored},
	} {
		if flag.set {
			line += " " + flag.name
		}
	}
	if f.Bookmark != nil && len(f.Bookmark.AllRestored()) > 0 {
		line += " restored:" + strings.Join(f.Bookmark.AllRestored(), ",")
	}
	return line
}

// expect compares the available frames with the wanted lines.
func expect(t *testing.T, c *testCursor, want ...string) {
	t.Helper()
	if got := show(c.of, c.drain()); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// replica is the state of a subscriber, built from its frames.
type replica map[types.UID]string

func (r replica) apply(f *Frame) {
	if f.Reset {
		clear(r)
	}
	for _, p := range f.Pods {
		switch f.Op {
		case config.REMOVE:
			delete(r, p.Object.UID)
		case config.ADD, config.UPDATE, config.DELETE, config.RECONCILE, config.SET:
			r[p.Object.UID] = p.Object.Labels["image"]
		}
	}
}

func (r replica) String() string {
	var lines []string
	for uid, image := range r {
		lines = append(lines, string(uid)+"="+image)
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// presentOf returns the state of the journal as a replica.
func presentOf(j *testJournal) replica {
	r := replica{}
	for _, p := range j.State().Pods {
		r[p.Object.UID] = p.Object.Labels["image"]
	}
	return r
}

func done() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
