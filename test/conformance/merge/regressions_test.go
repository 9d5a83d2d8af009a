package merge

import (
	"testing"

	"github.com/podconfigd/podconfigd/test/merge"
)

// Shrunk sequences of earlier failures of TestMergeIsTheKubelets.
func TestRegressions(t *testing.T) {
	for name, steps := range map[string][]merge.Step{
		"of three pods of one UID the last is kept": {
			{Source: "file", Pods: []merge.Pod{{Name: 0}, {Name: 2}, {Name: 1}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := compare(t, steps); err != nil {
				t.Error(err)
			}
		})
	}
}
