package manifests

import (
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claim is a full name or a UID. Only one pod of the set can have it.
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

// claims has the file of each claim. The first file keeps it.
type claims map[claim]*file

// release removes the claims of the file that its current pod does not need.
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

// acquire claims what the file's pod needs and makes it the pod that the file serves. It
// acquires all claims or none, and reports which.
func (c claims) acquire(f *file) bool {
	for _, needs := range claimsOf(f.pod) {
		if owner := c[needs]; owner != nil && owner != f {
			f.conflict = fmt.Sprintf("the pod's %s is taken by %s; this manifest takes over when that one is removed",
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

// drop removes all claims of the file.
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
