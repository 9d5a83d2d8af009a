package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// pass makes all waits for pending files end.
func (b *bench) pass() {
	b.Helper()
	for f := range b.set.pending {
		f.due = time.Time{}
	}
	b.set.Look(b.Context(), nil)
}

// put writes a file with the pod x and an image, and removes one without an image. Then the set looks at the directory.
func (b *bench) put(file, image string) {
	b.Helper()
	if image == "" {
		b.remove(file)
	} else {
		b.write(file, podtest.Manifest("x", image))
	}
	b.lookAll()
	b.pass()
}

// restart replaces the set by the one of the next process. With a state directory, it has the pods of this set.
func (b *bench) restart(state bool) {
	b.Helper()
	opts := Options{Path: b.dir, Decoder: manifest.NewDecoder("n"), Impatient: true}
	if state {
		pods, files := b.set.Pods()
		opts.Restored = sources.Restored{Pods: pods, Files: make(map[types.UID]*config.File)}
		for i, pod := range pods {
			opts.Restored.Files[pod.UID] = files[i]
		}
	}
	b.set = New(opts)
	b.lookAll()
	b.pass()
}

// verdict returns the verdict on a file.
func (b *bench) verdict(file string) Verdict {
	b.Helper()
	for _, v := range b.set.Verdicts() {
		if filepath.Base(v.File) == file {
			return v
		}
	}
	b.Errorf("%s has no verdict", file)
	return Verdict{}
}

func (b *bench) expectVerdict(file string, state v1alpha1.ManifestState, reason, message, warning string) {
	b.Helper()
	v := b.verdict(file)
	if v.State != state || v.Reason != reason || !strings.Contains(v.Message, message) || (message == "") != (v.Message == "") ||
		!strings.Contains(strings.Join(v.Manifest.Warnings, " "), warning) || (warning == "") != (len(v.Warnings) == 0) {
		b.Errorf("the verdict on %s is %+v, want %s, %q, %q and the warning %q", file, v.Manifest, state, reason, message, warning)
	}
}

// A file that had a name gets it back from each file that looks like a copy of it, and from any other file.
func TestAFileGetsItsNameBack(t *testing.T) {
	others := []string{"app.yaml", "a", "zzz.json"}
	for _, examples := range exampleCopies {
		others = append(others, strings.Fields(examples)...)
	}
	for _, other := range others {
		t.Run(other, func(t *testing.T) {
			b := newBench(t)
			isCopy := copyOf(other) != ""
			expectCopy := func() {
				t.Helper()
				if isCopy {
					b.expectVerdict(other, v1alpha1.ManifestShadowed, sources.ReasonDuplicate, "looks like a copy of web.yaml: the pod's name default/x-n is taken by web.yaml", "")
				} else {
					b.expectVerdict(other, v1alpha1.ManifestShadowed, sources.ReasonDuplicate, "the pod's name default/x-n is taken by web.yaml", "")
				}
				b.expectVerdict("web.yaml", v1alpha1.ManifestAccepted, "", "", "")
			}
			expectTakeover := func() {
				t.Helper()
				const message = "took over the pod's name from web.yaml"
				if isCopy {
					b.expectVerdict(other, v1alpha1.ManifestAccepted, sources.ReasonCopy, message, "looks like a copy of web.yaml")
				} else {
					b.expectVerdict(other, v1alpha1.ManifestAccepted, "", message, "")
				}
			}
			b.put("web.yaml", "1")
			b.put(other, "old")
			b.expect("x=1")
			b.put("web.yaml", "2") // in place
			b.expect("x=2")
			expectCopy()
			b.put("web.yaml", "") // an editor that takes longer
			b.expect("x=old")
			expectTakeover()
			b.put("web.yaml", "3")
			b.expect("x=3")
			expectCopy()

			b.restart(true)
			b.expect("x=3")
			expectCopy()
			b.put("web.yaml", "")
			b.restart(true)
			b.expect("x=old")
			expectTakeover()
			b.put("web.yaml", "4")
			b.expect("x=4")
			b.put("web.yaml", "")
			b.write("web.yaml", podtest.Manifest("x", "5"))
			b.restart(true)
			b.expect("x=5")
			b.put(other, "older")
			b.expect("x=5")
			if isCopy {
				b.restart(false)
				b.expect("x=5")
				expectCopy()
				b.put("web.yaml", "")
				b.restart(false)
				b.expect("x=older")
				b.put("web.yaml", "6")
				b.expect("x=6")
			}
		})
	}
}

// Among files that never had the name, one that looks like a copy of none of them is first, and then the first by name.
func TestTheFirstListing(t *testing.T) {
	for files, want := range map[string]string{
		"backup-web.yaml web.yaml":                    "web.yaml",
		"backup-web.yaml web.yaml web.yaml.bak":       "web.yaml",
		"#web.yaml# web.yml":                          "web.yml",
		"web-2026.yaml web.json":                      "web.json",
		"app.yaml.bak zzz.yaml":                       "zzz.yaml", // also if it is the copy of another file
		"backup-web.yaml web2.yaml web3.yaml":         "web2.yaml",
		"web-2026-10.yaml web-2026-11.yaml":           "web-2026-10.yaml",
		"web.yaml web.yml":                            "web.yaml",
		"a.yaml b.yaml c.yaml":                        "a.yaml",
		"web.bak web.yaml.bak~ web.yaml.bak":          "web.bak",
		"copy-of-web.yaml old-web.yaml web.manifest~": "copy-of-web.yaml",
	} {
		b := newBench(t)
		for file := range strings.FieldsSeq(files) {
			b.write(file, podtest.Manifest("x", file))
		}
		b.lookAll()
		b.expect("x=" + want)
		for range 2 {
			b.set.Outdate()
			b.set.LookAgain(t.Context())
			b.expect("x=" + want)
		}
	}
}

// Steps are files and the images in them, and "" for a file that is removed, and the pod after each.
func TestTakeovers(t *testing.T) {
	for name, steps := range map[string][][3]string{
		"the file itself comes after its copy": {{"web.yaml.bak", "1", "x=1"}, {"web.yaml", "2", "x=2"}, {"web.yaml", "", "x=1"}, {"web.yaml", "3", "x=3"}},
		"a file that had the name keeps it":    {{"web-2026.yaml", "1", "x=1"}, {"app.yaml", "2", "x=1"}, {"web-2026.yaml", "3", "x=3"}},
		"three files": {
			{"b.yaml", "b", "x=b"}, {"c.yaml", "c", "x=b"}, {"a.yaml", "a", "x=b"}, {"b.yaml", "", "x=a"}, {"a.yaml", "", "x=c"},
			{"a.yaml", "a", "x=a"}, {"b.yaml", "b", "x=b"}, {"a.yaml", "", "x=b"}, {"b.yaml", "", "x=c"}, {"a.yaml", "a", "x=a"},
		},
		"all are gone": {{"b.yaml", "b", "x=b"}, {"a.yaml", "a", "x=b"}, {"b.yaml", "", "x=a"}, {"a.yaml", "", ""}, {"a.yaml", "a", "x=a"}, {"b.yaml", "b", "x=a"}},
		"a copy of a third file": {
			{"web.yaml", "1", "x=1"}, {"web.yaml.bak", "2", "x=1"}, {"app.yaml", "3", "x=1"}, {"web.yaml", "", "x=3"}, {"app.yaml", "", "x=2"}, {"web.yaml", "4", "x=4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for _, step := range steps {
				b.put(step[0], step[1])
				b.expect(step[2])
			}
		})
	}
}

// The verdict on a file that took over does not promise the name to one that does not get it back.
func TestWhoGetsTheNameBack(t *testing.T) {
	const back = ", which gets it back when it is there again"
	for name, test := range map[string]struct {
		steps          [][2]string
		file, from     string
		reason, copied string
	}{
		"a plain name": {[][2]string{{"b.yaml", "1"}, {"a.yaml", "2"}, {"b.yaml", ""}}, "a.yaml", "b.yaml" + back, "", ""},
		"its copy":     {[][2]string{{"web.yaml~", "1"}, {"web.yaml", "2"}}, "web.yaml", "web.yaml~", "", ""},
		"the copy of another file that had it first": {
			[][2]string{{"web.yaml~", "1"}, {"app.yaml", "2"}, {"web.yaml~", ""}}, "app.yaml", "web.yaml~" + back, "", "",
		},
		"a copy that stood in": {
			[][2]string{{"web.yaml", "1"}, {"web.yaml~", "1"}, {"web.yaml", ""}, {"app.yaml", "2"}}, "app.yaml", "web.yaml~", "", "",
		},
		"a copy that another one took over from": {
			[][2]string{{"web.yaml", "1"}, {"web.yaml~", "1"}, {"web.yaml", ""}, {"web.yaml.bak", "2"}, {"web.yaml~", ""}},
			"web.yaml.bak", "web.yaml~" + back, sources.ReasonCopy, "looks like a copy of web.yaml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for _, step := range test.steps {
				b.put(step[0], step[1])
			}
			b.expectVerdict(test.file, v1alpha1.ManifestAccepted, test.reason, "took over the pod's name from "+test.from, test.copied)
			if got := b.verdict(test.file).Message; !strings.HasSuffix(got, test.from) {
				t.Errorf("the message is %q", got)
			}
		})
	}
}

// A copy that served a pod while its original was missing has no better right to it than a file that does not look like a copy.
// Among copies, it keeps the pod.
func TestACopyThatStoodIn(t *testing.T) {
	b := newBench(t)
	b.put("a.yaml", "1")
	b.put("a.yaml~", "old")
	b.put("a.yaml", "") // an editor that takes longer
	b.expect("x=old")
	b.put("a.yaml", "2")
	b.expect("x=2")
	b.put("a.yaml.bak", "older")
	b.put("z.yaml", "2")
	b.put("a.yaml", "") // it has another name now
	b.expect("x=2")
	b.put("z.yaml", "")
	b.expect("x=old")
	b.put("a.yaml.bak", "older still")
	b.expect("x=old")
	b.put("z.yaml", "3")
	b.expect("x=3")
	b.put("a.yaml", "4")
	b.expect("x=4")
	b.put("a.yaml", "")
	b.expect("x=3")
}

// A manifest that is bad keeps its name, also against a copy.
func TestABadManifestKeepsItsName(t *testing.T) {
	b := newBench(t)
	b.put("web.yaml", "1")
	b.put("web.yaml~", "2")
	b.write("web.yaml", "kind: [")
	b.lookAll()
	b.pass()
	b.expect("x=1")
	b.restart(true)
	b.expect("x=1")
}

func (b *bench) move(from, to string) {
	b.Helper()
	if err := os.Rename(filepath.Join(b.dir, from), filepath.Join(b.dir, to)); err != nil {
		b.Fatal(err)
	}
	b.lookAll()
	b.pass()
}

// A file that is written with a temporary name and moved soon has no right to the name when it is written again.
func TestATemporaryNameIsNotRemembered(t *testing.T) {
	b := newBench(t)
	b.put("new.yaml", "1")
	b.expect("x=1")
	b.move("new.yaml", "web.yaml")
	b.expect("x=1")
	b.expectVerdict("web.yaml", v1alpha1.ManifestAccepted, "", "", "")
	b.put("new.yaml", "2")
	b.expect("x=1")
	b.move("new.yaml", "web.yaml")
	b.expect("x=2")

	b.move("web.yaml", "web.yaml.disabled") // its name is remembered
	b.expect("x=2")
	b.put("web.yaml", "3")
	b.expect("x=3")

	b = newBench(t)
	b.put("web.yaml", "1")
	b.set.files["web.yaml"].since = time.Now().Add(-brief)
	b.move("web.yaml", "app.yaml")
	b.expectVerdict("app.yaml", v1alpha1.ManifestAccepted, "", "took over the pod's name from web.yaml", "")
	b.put("web.yaml", "2")
	b.expect("x=2")
}

// While a file is missing and may come back, a file that waits for its name has no verdict.
func TestNoVerdictDuringARename(t *testing.T) {
	b := newBench(t)
	b.put("web.yaml", "1")
	if err := os.Rename(filepath.Join(b.dir, "web.yaml"), filepath.Join(b.dir, "app.yaml")); err != nil {
		t.Fatal(err)
	}
	b.lookAll()
	if got := b.states(); got != "web.yaml Accepted" {
		t.Error(got)
	}
	b.write("web.yaml", podtest.Manifest("x", "1"))
	b.lookAll()
	if got := b.states(); got != "app.yaml Shadowed web.yaml Accepted" {
		t.Error(got)
	}
	b.remove("web.yaml")
	b.lookAll()
	b.pass()
	if got := b.states(); got != "app.yaml Accepted" {
		t.Error(got)
	}
}

// Without a kubelet, a new file whose name looks temporary gives its pod only after a second. If it is moved before, there is
// one change.
func TestATemporaryFile(t *testing.T) {
	for name, test := range map[string]struct {
		file  string
		alone func() bool
		waits bool
	}{
		"no kubelet":         {"web.tmp", func() bool { return true }, true},
		"another suffix":     {"web.yaml.a1B2c3", func() bool { return true }, true},
		"a kubelet":          {"web.tmp", func() bool { return false }, false},
		"it is not known":    {"web.tmp", nil, false},
		"a usual name":       {"backup-agent.yaml", func() bool { return true }, false},
		"no extension":       {"web", func() bool { return true }, false},
		"a name with a date": {"web-2026.yaml", func() bool { return true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.set = New(Options{Path: b.dir, Decoder: manifest.NewDecoder("n"), Impatient: true, Alone: test.alone})
			b.set.temporary = time.Hour
			b.write(test.file, podtest.Manifest("x", "1"))
			changed := b.lookAll()
			if changed == test.waits || b.set.Unread() != test.waits {
				t.Fatalf("changed: %t, unread: %t", changed, b.set.Unread())
			}
			if !test.waits {
				b.expect("x=1")
				return
			}
			if n, due := b.set.Unsettled(); n != 1 || len(b.set.Verdicts()) != 0 || time.Until(due) < time.Minute {
				t.Errorf("%d unsettled until %v, verdicts %v", n, due, b.set.Verdicts())
			}
			b.set.Look(t.Context(), []string{test.file})
			b.expect("")
			b.move(test.file, "web.yaml")
			b.expect("x=1")
			if n, _ := b.set.Unsettled(); n != 0 || b.states() != "web.yaml Accepted" {
				t.Errorf("%d are unsettled, %s", n, b.states())
			}

			// It takes over at once: the pod is not removed in between.
			b.move("web.yaml", test.file)
			b.expect("x=1")
			b.remove(test.file)
			b.lookAll()
			b.pass()
			b.expect("")

			b.write(test.file, podtest.Manifest("x", "2"))
			b.lookAll()
			b.expect("")
			b.set.temporary = 0 // its time is over
			b.pass()
			b.expect("x=2")
			if b.set.Unread() {
				t.Error("it is unread")
			}
		})
	}
}

// Ignored files are not read: neither at a listing, nor when a change is reported, nor after a restart.
func TestIgnore(t *testing.T) {
	b := newBench(t)
	b.put("web.yaml.bak", "1")
	pods, files := b.set.Pods()
	b.set = New(Options{
		Path: b.dir, Decoder: manifest.NewDecoder("n"), Impatient: true, Ignore: []string{"*.bak", "#*#"},
		Restored: sources.Restored{Pods: pods, Files: map[types.UID]*config.File{pods[0].UID: files[0]}},
	})
	b.expect("")
	b.lookAll()
	b.write("#a.yaml#", podtest.Manifest("x", "2"))
	b.set.Look(t.Context(), []string{"#a.yaml#", "web.yaml.bak"})
	b.lookAll()
	b.expect("")
	b.put("a.yaml#", "3")
	b.expect("x=3")
	if got := b.states(); got != "a.yaml# Accepted" {
		t.Error(got)
	}
}
