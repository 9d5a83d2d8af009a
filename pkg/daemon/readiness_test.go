package daemon

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/internal/testutil/recovered"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// The daemon is not ready while a source is only restored. The error tells such sources from
// those that have no pods yet.
func TestReadinessNamesTheSources(t *testing.T) {
	d := &Daemon{podConfig: config.NewPodConfig(), journal: journal.New(journal.Options{
		Sources: []string{"api", "file", "http"}, Recovered: recovered.Of(map[string][]*v1.Pod{"api": {{}}}),
	})}
	for _, step := range []struct{ source, want string }{
		{"file", "waiting for sources: api (restored: serving its last known pods), http"},
		{"http", "waiting for sources: api (restored: serving its last known pods)"},
		{"api", ""},
	} {
		d.journal.Append(config.PodUpdate{Op: config.ADD, Source: step.source})
		got := ""
		if err := d.checkSources(); err != nil {
			got = err.Error()
		}
		if got != step.want {
			t.Errorf("after %s: got %q, want %q", step.source, got, step.want)
		}
	}
}
