package file

import (
	"path/filepath"
	"testing"
)

// A file that goes between the look at it and its opening is gone, and no link to
// nowhere.
func TestReadOfAFileThatIsGone(t *testing.T) {
	l := looker{metrics: newMetrics(nil)}
	var s sight
	l.read(filepath.Join(t.TempDir(), "gone.yaml"), knowledge{}, &s)
	if !s.gone || s.fault != nil {
		t.Errorf("gone: %t, fault: %v", s.gone, s.fault)
	}
	s = sight{hops: []hop{{}}}
	l.read(filepath.Join(t.TempDir(), "link.yaml"), knowledge{}, &s)
	if s.gone || s.fault == nil || s.fault.reason != reasonDanglingLink {
		t.Errorf("of a link: gone: %t, fault: %v", s.gone, s.fault)
	}
}
