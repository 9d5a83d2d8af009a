package manifests

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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

// claims has the file of each claim.
type claims map[claim]*file

// claimAll claims what the file's pod needs, and makes it the pod that the file serves. It makes all claims or none. If
// another file has one of them, claimAll returns the claim and that file.
func (c claims) claimAll(f *file) (taken claim, owner *file) {
	for _, needs := range claimsOf(f.pod) {
		if owner := c[needs]; owner != nil && owner != f {
			return needs, owner
		}
	}
	for _, needs := range claimsOf(f.pod) {
		c[needs] = f
	}
	f.serving, f.conflict = f.pod, ""
	return claim{}, nil
}

// release removes the claims of what the file serves, and returns them. Then it serves nothing.
func (c claims) release(f *file) (released []release) {
	if f.serving == nil {
		return nil
	}
	for _, has := range claimsOf(f.serving) {
		if c[has] == f {
			delete(c, has)
			released = append(released, release{has, f})
		}
	}
	f.serving = nil
	return released
}

// release is a claim, and the file that had it.
type release struct {
	claim
	by *file
}

// claim gives the files what their pods need and nobody has. It returns the files, of these and of those that have a claim,
// whose pods need a claim of another file. They keep none.
func (c claims) claim(files []*file) (conflicting map[*file]struct{}) {
	for _, f := range files {
		for _, needs := range claimsOf(f.pod) {
			switch other := c[needs]; other {
			case nil:
				c[needs] = f
			case f:
			default:
				if conflicting == nil {
					conflicting = make(map[*file]struct{})
				}
				conflicting[f], conflicting[other] = struct{}{}, struct{}{}
			}
		}
	}
	return conflicting
}

// drop removes the claims of what the file needs.
func (c claims) drop(f *file) {
	for _, needs := range claimsOf(f.pod) {
		if c[needs] == f {
			delete(c, needs)
		}
	}
}

// maxHolders limits the files that are remembered for a claim.
const maxHolders = 16

// holders has the names of the files that had a claim, if several had it. The first one had it first: a file that is there again
// gets a claim back from those that had it later.
type holders map[claim][]string

// note records that a claim goes from one file to another.
func (h holders) note(c claim, from, to string) {
	names := h[c]
	if len(names) == 0 {
		names = []string{from}
	}
	if !slices.Contains(names, to) {
		names = append(names, to)
	}
	if len(names) > maxHolders {
		names = slices.Delete(names, 1, 2)
	}
	h[c] = names
}

// rename records that a file that had a claim for a short time has another name.
func (h holders) rename(c claim, from, to string) {
	names := slices.DeleteFunc(h[c], func(name string) bool { return name == to })
	if at := slices.Index(names, from); at >= 0 {
		names[at] = to
	}
	if h[c] = names; len(names) < 2 {
		delete(h, c)
	}
}

// before returns the names of those that had the claim before the file.
func (h holders) before(c claim, name string) []string {
	names := h[c]
	return names[:max(slices.Index(names, name), 0)]
}

// rank is the order in which files get their claims: first those that do not look like a copy of another one that is
// there, then those that had a claim, then those that do not look like a copy at all, then by name. A copy that took a claim over
// has not had it. Among copies, it comes first.
type rank struct {
	copy, had, named int
	name             string
}

// never is the rank of a file that never had its claims.
const never = maxHolders + 1

// rank returns the rank of a file. released has what it had until now.
func (s *Set) rank(f *file, released []release) rank {
	r := rank{had: never, name: f.name}
	alone := false // no other file had what it has
	for _, needs := range claimsOf(f.pod) {
		if at := slices.Index(s.holders[needs], f.name); at >= 0 {
			r.had = min(r.had, at)
		}
		alone = alone || slices.Contains(released, release{needs, f})
	}
	if r.had == never && alone {
		r.had = 0
	}
	if f.original = s.originalOf(f); f.original != nil {
		r.copy = 1
	}
	if copyOf(f.name) != "" {
		if r.named = never; r.had > 0 {
			r.had, r.named = never, r.had
		}
	}
	return r
}

// originalOf returns the file of which the file looks like a copy: by its name, and by a claim that both need. It is nil
// if there is none.
func (s *Set) originalOf(f *file) *file {
	of, _ := bare(copyOf(f.name))
	if of == "" {
		return nil
	}
	for _, extension := range []string{"", ".yaml", ".yml", ".json", ".manifest"} {
		if original := s.files[of+extension]; original != nil && original != f && original.pod != nil {
			for i, needs := range claimsOf(original.pod) {
				if needs == claimsOf(f.pod)[i] {
					return original
				}
			}
		}
	}
	return nil
}

// describeConflict says why the file does not get its claims.
func describeConflict(f *file, taken claim, owner *file) string {
	text := fmt.Sprintf("the pod's %s is taken by %s; this manifest takes over when that one is removed", taken, filepath.Base(owner.path))
	if f.original != nil {
		text = fmt.Sprintf("looks like a copy of %s: %s", filepath.Base(f.original.path), text)
	}
	return text
}

// extension is how the name of a manifest usually ends.
const extension = `\.(?:ya?ml|json|manifest)`

// copies are the names that look like a copy of another file. A pattern has that file's name in its groups.
// docs/how-to/manifests.md lists them.
var copies = []*regexp.Regexp{
	// Emacs.
	regexp.MustCompile(`^#(.+)#$`),
	// Editors.
	regexp.MustCompile(`^(.+)~$`),
	// The commands sed -i.orig, cp, mktemp, rpm, dpkg, pacman and some IDEs.
	regexp.MustCompile(`(?i)^(.+` + extension + `)[^A-Za-z0-9].*$`),
	// The same, without the extension.
	regexp.MustCompile(`(?i)^(.+)\.(?:` + mark + `|sw[a-p]|part(?:ial)?|cfsaved|aug(?:new|save)|rpm(?:new|save|orig)|(?:dpkg|ucf)-[a-z]+|pac(?:new|save|orig)|apk-new)$`),
	// People.
	regexp.MustCompile(`(?i)^(?:` + mark + `)(?:[-_. ]of)?[-_. ](.+)$`),
	// People and file managers.
	regexp.MustCompile(`(?i)^(.+?)(?: -)?[-_. ](?:` + mark + `)(?:[-_. ]?[0-9]+)?(` + extension + `)$`),
	// File managers, Dropbox and Syncthing.
	regexp.MustCompile(`(?i)^(.+?)(?: ?\((?:[0-9]+|[^)]*copy[^)]*)\)|[.]sync-conflict-[^.]+)(` + extension + `)?$`),
	// Backups with a date, or with the seconds of date +%s.
	regexp.MustCompile(`(?i)^(.+?)[-_.](?:20[0-9]{2}(?:(?:[0-9]{4}|[^0-9]).*?)??|[12][0-9]{9})(` + extension + `)?$`),
	// Backups that begin with a date.
	regexp.MustCompile(`^20[0-9]{2}(?:[0-9]{4}|-[0-9]{2}-[0-9]{2})(?:[-_.T][0-9:.-]*[0-9])?[-_ ](.+)$`),
}

// mark is the words that mark a copy.
const mark = `bak|backup|copy|orig|original|old|prev(?:ious)?|new|sav|saved?|te?mp|disabled?|off`

// copyOf returns the name that a name looks like a copy of; empty if it does not look like one.
func copyOf(name string) (of string) {
	for again := true; again; {
		again = false
		for _, pattern := range copies {
			if groups := pattern.FindStringSubmatch(name); groups != nil {
				name = strings.Join(groups[1:], "")
				of, again = name, true
				break
			}
		}
	}
	return of
}

// bare returns a name without the extension of manifests, and whether it has one.
func bare(name string) (string, bool) {
	switch extension := filepath.Ext(name); strings.ToLower(extension) {
	case ".yaml", ".yml", ".json", ".manifest":
		return strings.TrimSuffix(name, extension), true
	}
	return name, false
}

// sameName reports whether two names differ at most in the extension.
func sameName(a, b string) bool {
	a, _ = bare(a)
	b, _ = bare(b)
	return a == b
}
