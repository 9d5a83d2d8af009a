package params

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// Any query is either accepted completely or refused with a reason. An accepted query can
// be watched.
func FuzzParseUpdates(f *testing.F) {
	for _, query := range []string{
		"", "mode=snapshot&ops=*&source=file", "instance=i&since=1", "since=-1", "labelSelector=a%3Db,c+in+(d)&fieldSelector=metadata.name%3Dx",
		"ops=ADD,,UPDATE", "mirrorPods=false&mirrorPods=true", "%zz", "namespace=;&x", "owner=deployment%2Fweb", "owner=a",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		opts, err := ParseUpdates(query)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a reason")
			}
			return
		}
		j := journal.New(journal.Options{Sources: []string{"file"}})
		j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{{}}})
		cursor := view.Stream(j, opts)
		defer cursor.Close()
		if _, err := cursor.Next(t.Context()); err != nil {
			t.Errorf("%q: %v", query, err)
		}
	})
}
