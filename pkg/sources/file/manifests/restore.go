package manifests

import (
	"path/filepath"
	"strings"

	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
)

// restore adds the pods from before a restart, as the last good pods of their files. Each pod keeps
// its name and UID until its file is gone or needs another. restore does not add pods of files
// outside the path, and returns their number.
func (s *Set) restore(restored sources.Restored) (dropped int) {
	for _, pod := range restored.Pods {
		source := restored.Files[pod.UID]
		if source == nil {
			dropped++
			continue
		}
		name, here := s.nameOf(source.Path)
		if !here || s.files[name] != nil {
			dropped++
			continue
		}
		if s.ignores(name) {
			continue
		}
		f := s.addFile(name)
		f.pod, f.source = pod, source
		if source.Before != "" {
			has := *source
			has.Before = ""
			f.source = &has
			s.holders[claimsOf(pod)[0]] = append(strings.Split(source.Before, "/"), name)
		}
		if _, owner := s.claims.claimAll(f); owner != nil {
			s.waiting[f] = struct{}{}
		}
		s.serve(f)
		s.dir = s.dir || name != follow.Single
	}
	return dropped
}

// nameOf returns the name of the file, if it is at the path.
func (s *Set) nameOf(file string) (name string, here bool) {
	for _, name := range []string{follow.Single, filepath.Base(file)} {
		if follow.Join(s.path, name) == file {
			return name, true
		}
	}
	return "", false
}
