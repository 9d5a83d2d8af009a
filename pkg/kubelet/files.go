package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// maxFiles limits the number of files that are remembered for a name.
const maxFiles = 64

// missing returns the files of a name that are gone, apart from one.
func (f *Finder) missing(name types.NamespacedName, except string) (files []string) {
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.files[name]))
	f.mu.Unlock()
	for _, file := range all {
		if file == "" || file == except { // a pod of a URL has none
			continue
		}
		if _, err := f.opts.stat(file); errors.Is(err, fs.ErrNotExist) {
			files = append(files, file)
		}
	}
	return files
}

// decodedFile records the UID that the rules give the pod in a file, and forgets the files that are gone.
func (f *Finder) decodedFile(name types.NamespacedName, file string, uid types.UID, gone []string) {
	for _, other := range gone {
		delete(f.files[name], other)
	}
	if f.files[name] == nil || len(f.files[name]) >= maxFiles {
		f.files[name] = make(map[string]types.UID, 1)
	}
	f.files[name][file] = uid
}

// gives reports whether the rules give the pod of that name the UID in one of its files.
func (f *Finder) gives(name types.NamespacedName, uid types.UID) bool {
	for _, given := range f.files[name] {
		if given == uid {
			return true
		}
	}
	return false
}

// SetIgnoring sets whether there may be files that the kubelet reads and podconfigd does not. Then a UID that no rules give
// can be that of such a file, and is not adopted.
func (f *Finder) SetIgnoring(ignoring bool) {
	f.mu.Lock()
	f.ignoring = ignoring
	f.mu.Unlock()
	f.Notice()
}

// Compare shows in the status which shadowed manifests the kubelet runs: of two files with one pod, it takes the last one.
func (f *Finder) Compare(status *v1alpha1.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range status.Sources {
		if status.Sources[i].File == nil {
			continue
		}
		manifests := status.Sources[i].File.Manifests
		for j := range manifests {
			m := &manifests[j]
			s := f.seen(types.NamespacedName{Namespace: m.Namespace, Name: m.Name})
			if m.State != v1alpha1.ManifestShadowed || m.UID == "" || s == nil || s.uid != types.UID(m.UID) {
				continue
			}
			m.Warnings = append(slices.Clip(m.Warnings), "the kubelet runs the pod of this file: it takes the last of the files by name")
			if k := status.Kubelet; k != nil && k.Detail == "" {
				k.Detail = fmt.Sprintf("the kubelet runs %s/%s of %s, and podconfigd serves that of another file: remove one of the files",
					m.Namespace, m.Name, filepath.Base(m.Path))
			}
		}
	}
}
