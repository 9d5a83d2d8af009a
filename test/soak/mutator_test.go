package soak

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The names of sources.
const (
	fileSource = "file"
	httpSource = "http"
	apiSource  = "api"
)

var (
	namespaces = []string{"default", "kube-system", "other"}
	tiers      = []string{"a", "b", "c"}
)

// garbage is a manifest that is no pod.
const garbage = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":`

// mutator changes the sources, and knows what they have. Its changes follow from the seed.
type mutator struct {
	t      *testing.T
	random *rand.Rand
	dir    string
	web    *web
	// api is nil if there is no apiserver.
	api *apiserver
	// clashes: some names, and some UIDs, are in both sources.
	clashes bool

	truth truth
	// bad are the manifests that can't be used now, by source and name.
	bad map[string]map[string]bool
	// version counts the versions, uids the UIDs that a name has had.
	version int
	uids    map[string]int
	// generation is the directory that the link "manifests" leads to.
	generation int
	// kinds counts the changes by their kind.
	kinds map[string]int
}

func newMutator(t *testing.T, random *rand.Rand, dir string, clashes bool) *mutator {
	t.Helper()
	m := &mutator{
		t: t, random: random, dir: dir, clashes: clashes, web: newWeb(t), uids: make(map[string]int), kinds: make(map[string]int),
		truth: truth{fileSource: {}, httpSource: {}, apiSource: {}}, bad: map[string]map[string]bool{fileSource: {}, httpSource: {}},
	}
	m.replaceDirectory()
	return m
}

func (m *mutator) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// change makes one change.
func (m *mutator) change() {
	if m.api != nil && m.random.IntN(2) == 0 {
		m.kinds[m.changeAPI()]++
		return
	}
	kind := "write"
	switch n := m.random.IntN(100); {
	case n < 45:
		m.write(m.next(fileSource))
	case n < 58:
		kind = "remove"
		m.remove(m.name())
	case n < 64:
		kind = "garbage"
		m.spoil(m.name())
	case n < 78:
		kind = "replace directory"
		m.many(fileSource)
		m.replaceDirectory()
	case n < 81:
		kind = "empty directory"
		clear(m.truth[fileSource])
		clear(m.bad[fileSource])
		m.replaceDirectory()
	case n < 83:
		kind = "rename directory"
		m.renameDirectory()
	case n < 98:
		kind = "list"
		m.many(httpSource)
		m.serve()
	default:
		kind = "no list"
		m.web.serve(http.StatusInternalServerError)
	}
	m.kinds[kind]++
}

func (m *mutator) name() string { return fmt.Sprint("pod-", m.random.IntN(24)) }

// next returns a new version of a pod. Now and then it has another UID, which makes it
// another pod.
func (m *mutator) next(source string) manifest { return m.nextOf(source, m.name()) }

func (m *mutator) nextOf(source, name string) manifest {
	m.version++
	owner := name
	if source == httpSource {
		name, owner = m.webName(name)
	}
	if m.random.IntN(4) == 0 {
		m.uids[owner]++
	}
	p := manifest{
		name: name, uid: fmt.Sprintf("%s-%d", owner, m.uids[owner]), version: fmt.Sprint(m.version),
		namespace: namespaces[len(name)%len(namespaces)], tier: tiers[m.random.IntN(len(tiers))],
	}
	if m.random.IntN(3) == 0 {
		p.size = m.random.IntN(5000)
	}
	delete(m.bad[source], name)
	m.truth[source][name] = p
	return p
}

// webName returns the name of a pod of the HTTP source, and what its UIDs begin with. If
// there are clashes, a quarter has names of the other source, and another quarter its UIDs too.
func (m *mutator) webName(name string) (clashing, owner string) {
	switch {
	case m.clashes && name[len(name)-1]%4 == 0:
		return name, name
	case m.clashes && name[len(name)-1]%4 == 1:
		return name, "web-" + name
	}
	return "web-" + name, "web-" + name
}

// many changes many pods of a source.
func (m *mutator) many(source string) {
	for range 1 + m.random.IntN(12) {
		if m.random.IntN(3) == 0 {
			name := m.name()
			if source == httpSource {
				name, _ = m.webName(name)
			}
			delete(m.truth[source], name)
			delete(m.bad[source], name)
			continue
		}
		m.next(source)
	}
}

func (m *mutator) write(p manifest) { m.writeFile(p.name, p.json()) }

// writeFile puts a file into the directory in one step.
func (m *mutator) writeFile(name, content string) {
	temp := filepath.Join(m.dir, "temp")
	m.must(os.WriteFile(temp, []byte(content), 0o600))
	m.must(os.Rename(temp, filepath.Join(m.dir, "manifests", name+".json")))
}

func (m *mutator) remove(name string) {
	if _, there := m.truth[fileSource][name]; !there {
		return
	}
	delete(m.truth[fileSource], name)
	delete(m.bad[fileSource], name)
	m.must(os.Remove(filepath.Join(m.dir, "manifests", name+".json")))
}

// spoil makes a manifest one that can't be used. What it was remains in the truth: it is
// written again before anything is compared.
func (m *mutator) spoil(name string) {
	if _, there := m.truth[fileSource][name]; there {
		m.bad[fileSource][name] = true
		m.writeFile(name, garbage)
	}
}

// replaceDirectory has the link lead to a new directory, so that everything changes at once.
func (m *mutator) replaceDirectory() {
	old := m.current()
	m.generation++
	m.must(os.Mkdir(m.current(), 0o700))
	for name, p := range m.truth[fileSource] {
		content := p.json()
		if m.bad[fileSource][name] {
			content = garbage
		}
		m.must(os.WriteFile(filepath.Join(m.current(), name+".json"), []byte(content), 0o600))
	}
	temp := filepath.Join(m.dir, "link")
	m.must(os.Symlink(m.current(), temp))
	m.must(os.Rename(temp, filepath.Join(m.dir, "manifests")))
	m.must(os.RemoveAll(old))
}

func (m *mutator) current() string {
	return filepath.Join(m.dir, fmt.Sprint("generation-", m.generation))
}

// renameDirectory has the directory be away for a moment.
func (m *mutator) renameDirectory() {
	away := m.current() + "-away"
	m.must(os.Rename(m.current(), away))
	m.must(os.Rename(away, m.current()))
}

// serve has the web server serve what the truth has.
func (m *mutator) serve() {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(m.truth[httpSource])) {
		items = append(items, m.truth[httpSource][name].json())
	}
	m.web.serve(http.StatusOK, items...)
}

// barrier writes a pod, whose version says that the daemon has read the directory since.
func (m *mutator) barrier() manifest {
	p := m.nextOf(fileSource, "barrier")
	m.write(p)
	return p
}

// heal makes everything such that the truth is what the daemon must have.
func (m *mutator) heal() {
	for _, name := range slices.Sorted(maps.Keys(m.bad[fileSource])) {
		m.write(m.nextOf(fileSource, name))
	}
	m.serve()
}
