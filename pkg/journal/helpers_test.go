package journal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// pod returns a pod whose UID is its name; content is "name" or "name=image".
func pod(content string) *v1.Pod {
	name, image, _ := strings.Cut(content, "=")
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"image": image},
			Annotations: map[string]string{config.ConfigSourceAnnotationKey: "file"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}
}

// update returns an update of the source "file".
func update(op config.PodOperation, contents ...string) config.PodUpdate {
	u := config.PodUpdate{Op: op, Source: "file", Pods: []*v1.Pod{}}
	for _, content := range contents {
		u.Pods = append(u.Pods, pod(content))
	}
	return u
}

// appendSet appends updates as those of one source set.
func appendSet(j *Journal, updates ...config.PodUpdate) {
	for i, u := range updates {
		u.More = i < len(updates)-1
		j.Append(u)
	}
}

func newJournal(opts Options) *Journal {
	if opts.Sources == nil {
		opts.Sources = []string{"file"}
	}
	return New(opts)
}

// drain returns all frames that are there now.
func drain(c *Cursor) (frames []*Frame) {
	for {
		got, changed := c.poll()
		frames = append(frames, got...)
		if len(got) > 0 {
			c.told = got[len(got)-1].Revision
		}
		if (len(got) == 0 && changed != nil) || c.failed != nil {
			return frames
		}
	}
}

// next returns the frames that come next, and fails where none come.
func next(t *testing.T, c *Cursor) []*Frame {
	t.Helper()
	frames, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

// show returns frames in short, with revisions counted from the journal's first.
func show(j *Journal, frames []*Frame) string {
	lines := make([]string, len(frames))
	for i, f := range frames {
		lines[i] = showFrame(j, f)
	}
	return strings.Join(lines, "\n")
}

func showFrame(j *Journal, f *Frame) string {
	line := fmt.Sprintf("%d %s", f.Revision-j.first, f.Op)
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
	} {
		if flag.set {
			line += " " + flag.name
		}
	}
	return line
}

// expect compares what the cursor has now with the lines wanted.
func expect(t *testing.T, c *Cursor, want ...string) {
	t.Helper()
	if got := show(c.journal, drain(c)); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// replica is the state that a reader builds from what it is given.
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

// present is the state that the journal has, as a replica.
func present(j *Journal) replica {
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
