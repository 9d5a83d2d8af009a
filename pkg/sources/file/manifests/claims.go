package manifests

import (
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claim is something that only one pod of the set can have: a full name or a UID.
type claim struct {
	namespace, name string
	uid             types.UID
}

func claimsOf(pod *v1.Pod) [2]claim {
	return [2]claim{{namespace: pod.Namespace, name: pod.Name}, {uid: pod.UID}}
}

func (c claim) String() string {
	if c.uid != "" {
		return fmt.Sprintf("UID %s", c.uid)
	}
	return fmt.Sprintf("name %s/%s", c.namespace, c.name)
}

// claims says which file has what. Who has something keeps it.
type claims map[claim]*file

// release gives back what the file has and its present pod does not need.
func (c claims) release(f *file) {
	if f.serving == nil {
		return
	}
	for _, has := range claimsOf(f.serving) {
		if f.pod != nil {
			if needs := claimsOf(f.pod); has == needs[0] || has == needs[1] {
				continue
			}
		}
		if c[has] == f {
			delete(c, has)
		}
	}
	if f.pod == nil {
		f.serving = nil
	}
}

// acquire takes what the file's pod needs and makes it the one that the file
// serves. It takes all of it or nothing, and tells which.
func (c claims) acquire(f *file) bool {
	for _, needs := range claimsOf(f.pod) {
		if owner := c[needs]; owner != nil && owner != f {
			f.conflict = fmt.Sprintf("the pod's %s is taken by %s; this manifest takes over when that one is gone",
				needs, filepath.Base(owner.path))
			c.drop(f)
			return false
		}
	}
	for _, needs := range claimsOf(f.pod) {
		c[needs] = f
	}
	f.serving, f.conflict = f.pod, ""
	return true
}

// drop gives back everything that the file has.
func (c claims) drop(f *file) {
	if f.serving == nil {
		return
	}
	for _, pod := range []*v1.Pod{f.serving, f.pod} {
		if pod == nil {
			continue
		}
		for _, has := range claimsOf(pod) {
			if c[has] == f {
				delete(c, has)
			}
		}
	}
	f.serving = nil
}
