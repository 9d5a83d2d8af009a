package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

func limitOf(t *testing.T, text string) RemovalLimit {
	t.Helper()
	limit, err := ParseRemovalLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// A share is rounded down, and always allows the removal of one pod.
func TestRemovalLimit(t *testing.T) {
	for _, test := range []struct {
		text       string
		pods, want int
	}{
		{"50%", 1, 1}, {"50%", 2, 1}, {"50%", 3, 1}, {"50%", 4, 2}, {"50%", 11, 5}, {"1%", 199, 1}, {"1%", 200, 2}, {"1%", 50000, 500},
		{"99%", 1, 1}, {"99%", 99, 98}, {"99%", 100, 99}, {"7%", 100, 7}, {"29%", 100, 29}, {"57%", 100, 57}, {"58%", 100, 58},
		{"1", 1, 1}, {"5", 3, 5}, {"5", 1000, 5}, {"1000000", 7, 1000000},
	} {
		t.Run(fmt.Sprintf("%s of %d", test.text, test.pods), func(t *testing.T) {
			if got, limited := limitOf(t, test.text).maxRemovals(test.pods); got != test.want || !limited {
				t.Errorf("%s of %d: %d, %t, want %d", test.text, test.pods, got, limited, test.want)
			}
			if got := limitOf(t, test.text).String(); got != test.text {
				t.Errorf("%s is shown as %s", test.text, got)
			}
		})
	}
	if _, limited := limitOf(t, "").maxRemovals(7); limited {
		t.Error("there is a limit without a limit")
	}
	for _, text := range []string{
		"0", "-1", "1000001", "2147483648", "9223372036854775808", "1e3", "0%", "-5%", "100%", "101%", "9999999999%", "50.5%", "%", "50%%", "half", " 5", "5 ", "50 %",
	} {
		if _, err := ParseRemovalLimit(text); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) || !strings.Contains(err.Error(), "1% to 99%") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseRemovalLimit(f *testing.F) {
	for _, text := range []string{"", "5", "50%", "0", "100%", "1000000", "5%5", "-1%"} {
		f.Add(text, 10)
	}
	f.Fuzz(func(t *testing.T, text string, pods int) {
		limit, err := ParseRemovalLimit(text)
		if err != nil || pods < 1 || pods > 1<<20 {
			return
		}
		again, err := ParseRemovalLimit(limit.String())
		if err != nil || again != limit {
			t.Fatalf("%q is shown as %q: %v", text, limit, err)
		}
		n, limited := limit.maxRemovals(pods)
		switch {
		case limited != (text != ""):
			t.Fatalf("%q: limited %t", text, limited)
		case limited && (n < 1 || strings.HasSuffix(text, "%") && n > max(1, pods-1)):
			t.Fatalf("%q of %d pods: %d", text, pods, n)
		}
	})
}

// braked is a PodConfig with a limit of removals and one source, in a bubble.
type braked struct {
	*PodConfig
	t       *testing.T
	ch      chan<- SourceSet
	lines   []string
	updates []string
}

// runBraked runs a test with a PodConfig.
func runBraked(t *testing.T, limit string, restored []*v1.Pod, test func(b *braked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &braked{PodConfig: NewPodConfig(), t: t}
		b.LimitRemovals(limitOf(t, limit), func(source string, removes int) string { return fmt.Sprintf("release %s %d", source, removes) })
		if restored != nil {
			b.Restore(FileSource, restored)
		}
		b.ch = b.Channel(FileSource)
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), funcr.New(func(_, args string) {
			b.lines = append(b.lines, strings.TrimPrefix(args, `"level"=0 `))
		}, funcr.Options{})))
		var running sync.WaitGroup
		running.Go(func() { _ = b.Run(ctx) })
		running.Go(func() {
			for u := range b.Updates() {
				names := make([]string, len(u.Pods))
				for i, p := range u.Pods {
					names[i] = p.Name
				}
				b.updates = append(b.updates, strings.TrimSpace(u.Op.String()+" "+strings.Join(names, " ")))
			}
		})
		test(b)
		cancel()
		running.Wait()
	})
}

// send sends a set of the pods with these names, and expects the updates that result.
func (b *braked) send(names string, want ...string) {
	b.t.Helper()
	var set []*v1.Pod
	for name := range strings.FieldsSeq(names) {
		set = append(set, pod(name, "u"+name))
	}
	b.ch <- SourceSet{Pods: set, Origin: "/m"}
	b.expect(want...)
}

func (b *braked) expect(want ...string) {
	b.t.Helper()
	synctest.Wait()
	if !slices.Equal(b.updates, want) {
		b.t.Errorf("got %q, want %q", b.updates, want)
	}
	b.updates = nil
}

func (b *braked) holds(want string) {
	b.t.Helper()
	got := ""
	if h, held := b.Held(FileSource); held {
		got = fmt.Sprintf("%d of %d since %s", h.Removes, h.Pods, h.Since.UTC().Format("15:04:05"))
		if !h.Until.IsZero() {
			got += " until " + h.Until.UTC().Format("15:04:05")
		}
	}
	if got != want {
		b.t.Errorf("held: %q, want %q", got, want)
	}
}

func (b *braked) logged(want ...string) {
	b.t.Helper()
	if !slices.Equal(b.lines, want) {
		b.t.Errorf("logged\n%s\nwant\n%s", strings.Join(b.lines, "\n"), strings.Join(want, "\n"))
	}
	b.lines = nil
}

const (
	holding  = `"msg"="Holding a set: it would remove too many pods" "source"="file" "origin"="/m" "removed"=%d "pods"=%d "limit"="50%%" "toApply"="release file %[1]d"`
	withdrew = `"msg"="No longer holding a set: the source has a set within the limit" "source"="file" "origin"="/m"`
	released = `"msg"="Released a held set" "source"="file" "origin"="/m"`
	emptied  = `"msg"="Source removed all of its pods" "source"="file" "origin"="/m" "removed"=%d`
)

// A set that would remove more than the limit is held as a whole, also its new pods. It is
// logged once. The hold ends when the source takes the removal back.
func TestAHeldSetIsTakenBack(t *testing.T) {
	runBraked(t, "50%", nil, func(b *braked) {
		b.send("a b c d", "ADD a b c d")
		b.send("a x")
		b.holds("3 of 4 since 00:00:00")
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		b.send("")
		b.holds("4 of 4 since 00:00:00")
		b.logged(fmt.Sprintf(holding, 3, 4))
		b.send("d c b a y", "ADD y")
		b.holds("")
		b.logged(withdrew)
	})
}

// Files may come back one by one. A set within the limit is not merged at once, because the
// other pods may follow. It is merged after a minute in which none came back.
func TestAHeldSetIsTakenBackInSteps(t *testing.T) {
	runBraked(t, "50%", nil, func(b *braked) {
		b.send("a b c d e", "ADD a b c d e")
		b.send("")
		b.send("a b")
		b.holds("3 of 5 since 00:00:00")
		b.send("a b c")
		b.holds("2 of 5 since 00:00:00 until 00:01:00")
		time.Sleep(59 * time.Second) //nolint:forbidigo // virtual time
		b.send("a b c d")
		b.holds("1 of 5 since 00:00:00 until 00:01:59")
		time.Sleep(59 * time.Second) //nolint:forbidigo // virtual time
		b.send("a b c d e")
		b.holds("")
		b.logged(fmt.Sprintf(holding, 5, 5), withdrew)
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		b.expect()

		b.send("")
		b.logged(fmt.Sprintf(holding, 5, 5))
		b.send("a b c d")
		time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
		b.send("a b c x")            // a change, but no pod came back
		b.holds("2 of 5 since 01:01:58 until 01:02:58")
		b.send("a x") // beyond the limit again
		b.holds("4 of 5 since 01:01:58")
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		b.holds("4 of 5 since 01:01:58")
		b.send("a b c x")
		b.holds("2 of 5 since 01:01:58 until 02:03:28")
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		b.expect("REMOVE d e", "ADD x")
		b.holds("")
		b.logged(withdrew)
	})
}

func TestAHeldSetIsReleased(t *testing.T) {
	runBraked(t, "50%", nil, func(b *braked) {
		if err := b.Release(b.t.Context(), FileSource, nil); !errors.Is(err, ErrNotHeld) {
			b.t.Errorf("releasing nothing: %v", err)
		}
		b.send("a b c d", "ADD a b c d")
		if err := b.Release(b.t.Context(), FileSource, nil); !errors.Is(err, ErrNotHeld) || err.Error() != "releasing source file: no set of it is held" {
			b.t.Errorf("releasing nothing: %v", err)
		}
		b.send("x")
		b.send("y")
		err := b.Release(b.t.Context(), HTTPSource, nil)
		if want := "releasing source http: there is no such source"; !errors.Is(err, ErrNoSource) || err.Error() != want {
			b.t.Errorf("releasing another source: %v", err)
		}
		b.expect()
		// A set that removes more than the one that was looked at stays held.
		err = b.Release(b.t.Context(), FileSource, new(3))
		want := "releasing source file: the set that is held now removes 4 of 4 pods, more than 3"
		if more, ok := errors.AsType[*RemovesMoreError](err); !ok || more.Removes != 4 || more.Most != 3 || err.Error() != want {
			b.t.Errorf("releasing at most 3: %v", err)
		}
		b.expect()
		if err := b.Release(b.t.Context(), FileSource, new(4)); err != nil {
			b.t.Error(err)
		}
		b.expect("REMOVE a b c d", "ADD y")
		b.holds("")
		b.logged(fmt.Sprintf(holding, 4, 4), released, `"msg"="Source removed most of its pods" "source"="file" "origin"="/m" "removed"=3 "left"=1`)
		// The next set is limited again.
		b.send("a b c d", "REMOVE y", "ADD a b c d") // of one pod, one may go
		b.send("")
		b.holds("4 of 4 since 00:00:00")
	})
}

// A pod is removed if neither its UID nor its name is in the set.
func TestWhatCountsAsRemoved(t *testing.T) {
	four := func() []*v1.Pod { return []*v1.Pod{pod("a", "1"), pod("b", "2"), pod("c", "3"), pod("d", "4")} }
	first := four()
	for name, test := range map[string]struct {
		limit string
		set   []*v1.Pod
		want  int // 0 if the set is not held
	}{
		"nothing":                 {"1", first, 0},
		"other pointers":          {"1", four(), 0},
		"edited manifests":        {"1", []*v1.Pod{pod("a", "5"), pod("b", "6"), pod("c", "7"), pod("d", "8")}, 0},
		"other names":             {"1", []*v1.Pod{pod("w", "1"), pod("x", "2"), pod("y", "3"), pod("z", "4")}, 0},
		"swapped names":           {"1", []*v1.Pod{pod("b", "1"), pod("a", "2"), pod("d", "3"), pod("c", "4")}, 0},
		"half":                    {"50%", first[2:], 0},
		"more than half":          {"50%", first[3:], 3},
		"as many others":          {"50%", []*v1.Pod{pod("w", "5"), pod("x", "6"), pod("y", "7"), pod("z", "8")}, 4},
		"as many as the number":   {"2", first[:2], 0},
		"one more than that":      {"2", first[:1], 3},
		"all":                     {"3", nil, 4},
		"all, with a high number": {"4", nil, 0},
		"no limit":                {"", nil, 0},
		"a pod twice":             {"2", []*v1.Pod{first[0], first[0]}, 3},
		"a UID twice":             {"2", []*v1.Pod{first[0], pod("x", "1")}, 3},
		"a name twice":            {"2", []*v1.Pod{first[0], pod("a", "9")}, 3},
		"another namespace":       {"3", []*v1.Pod{pod("a", "5", func(p *v1.Pod) { p.Namespace = "other" })}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			runBraked(t, test.limit, nil, func(b *braked) {
				b.ch <- SourceSet{Pods: first}
				synctest.Wait()
				for range 2 { // the same again
					b.ch <- SourceSet{Pods: test.set}
					synctest.Wait()
					h, held := b.Held(FileSource)
					if held != (test.want > 0) || h.Removes != test.want {
						b.t.Errorf("held: %t, %+v, want %d", held, h, test.want)
					}
				}
				b.updates = nil
				if test.want > 0 {
					b.ch <- SourceSet{Pods: first}
					b.expect()
					b.holds("")
				}
			})
		})
	}
}

// After a restart, the first set is compared with the restored pods. While it is held, the
// source has not been seen.
func TestTheFirstSetAfterARestartIsHeld(t *testing.T) {
	restored := []*v1.Pod{pod("a", "ua"), pod("b", "ub"), pod("c", "uc")}
	for i := range restored {
		restored[i] = annotate(restored[i], FileSource, time.Now())
	}
	runBraked(t, "50%", restored, func(b *braked) {
		b.send("")
		b.holds("3 of 3 since 00:00:00")
		if err := b.Release(b.t.Context(), FileSource, nil); err != nil {
			b.t.Error(err)
		}
		b.expect("REMOVE a b c", "ADD")
	})
	runBraked(t, "50%", restored, func(b *braked) {
		b.send("x")
		b.holds("3 of 3 since 00:00:00")
		b.send("a b c", "ADD")
		b.holds("")
	})
	runBraked(t, "50%", nil, func(b *braked) {
		b.send("", "ADD")
	})
}

// Other sources are not affected by a held set.
func TestOtherSourcesGoOn(t *testing.T) {
	runBraked(t, "1", nil, func(b *braked) {
		b.send("a b", "ADD a b")
		b.send("")
		b.Channel(HTTPSource) <- SourceSet{Pods: []*v1.Pod{pod("x", "x"), pod("y", "y")}}
		b.expect("ADD x y")
		b.Channel(HTTPSource) <- SourceSet{}
		b.expect()
		if err := b.Release(b.t.Context(), HTTPSource, nil); err != nil {
			b.t.Error(err)
		}
		b.expect("REMOVE x y")
		b.holds("2 of 2 since 00:00:00")
	})
}

// Release returns when its context ends, also if nothing merges.
func TestReleaseEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if err := NewPodConfig().Release(ctx, FileSource, nil); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}
