package status

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

func TestADegradedSourceHoldsWhatWasSeen(t *testing.T) {
	for seen, want := range map[bool]string{
		false: "http://h/; degraded, no pods read yet: refused",
		true:  "http://h/; degraded, keeping the last pods: refused",
	} {
		t.Run(fmt.Sprintf("seen=%t", seen), func(t *testing.T) {
			row := sourceRow(&v1alpha1.SourceStatus{
				Name: "http", Seen: seen, Degraded: true, LastError: "refused", HTTP: &v1alpha1.HTTPStatus{URL: "http://h/"},
			})
			if got := row[len(row)-1]; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestManifestsThatAreNotShown(t *testing.T) {
	status := &v1alpha1.Status{Sources: []v1alpha1.SourceStatus{{Name: "file", File: &v1alpha1.FileStatus{
		Manifests:        []v1alpha1.Manifest{{Path: "/m/a.yaml", State: v1alpha1.ManifestRejected, Message: "it is empty"}},
		ManifestsOmitted: map[v1alpha1.ManifestState]int{v1alpha1.ManifestRejected: 7, v1alpha1.ManifestHeld: 2},
	}}}}
	var out strings.Builder
	if err := overview(status).write(&out, false); err != nil {
		t.Fatal(err)
	}
	if want := "it is empty\nand 2 more Held\nand 7 more Rejected\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %q, want it to end in %q", out.String(), want)
	}
}

func TestARestoredSource(t *testing.T) {
	source := v1alpha1.SourceStatus{Name: "http", Restored: true, Pods: 2, HTTP: &v1alpha1.HTTPStatus{URL: "http://h/"}}
	if got, want := strings.Join(sourceRow(&source), "|"), "http|restored|2|<none>|http://h/"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	source.Degraded, source.LastError = true, "refused"
	if got, want := sourceRow(&source)[4], "http://h/; degraded, keeping the last pods: refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A watch can be open and mute. So the status shows when the apiserver last sent something, of whatever kind.
func TestWhenAnApiserverWasLastHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ago := func(minutes int) *time.Time { at := time.Now().Add(-time.Duration(minutes) * time.Minute); return &at }
		for want, api := range map[string]v1alpha1.APIStatus{
			"https://a, watching, 0 relists, 0 watch restarts":                                 {Connected: true},
			"https://a, watching, last heard 5m ago, 0 relists, 0 watch restarts":              {Connected: true, LastList: ago(5)},
			"https://a, watching, last heard 3m ago, 1 relists, 2 watch restarts":              {Connected: true, LastList: ago(7), LastEvent: ago(3), Relists: 1, WatchRestarts: 2},
			"https://a, not connected, last heard 4m ago, 0 relists, 0 watch restarts":         {NodeKnown: true, LastList: ago(4), LastEvent: ago(9)},
			"https://a; waiting until the apiserver has the node, 0 relists, 0 watch restarts": {},
		} {
			api.Server = "https://a"
			if got := apiserverState(&api); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func TestPlaceOfAManifest(t *testing.T) {
	file := &v1alpha1.SourceStatus{Name: "file", File: &v1alpha1.FileStatus{Path: "<hidden>"}}
	url := &v1alpha1.SourceStatus{Name: "http", HTTP: &v1alpha1.HTTPStatus{URL: "http://h/"}}
	for name, c := range map[string]struct {
		source *v1alpha1.SourceStatus
		path   string
		want   string
	}{
		"file":                {file, "/m/a.yaml", "/m/a.yaml, Accepted"},
		"file that is hidden": {file, "", "<hidden>, Accepted"},
		"item":                {url, "", "an item of the list, Accepted"},
		"item without a name": {url, "items[1]", "items[1], Accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			story := &v1alpha1.Story{Source: c.source, Manifest: &v1alpha1.Manifest{Path: c.path, State: v1alpha1.ManifestAccepted}}
			containsText(t, storyPage(story), "Manifest:  "+c.want+"\n")
		})
	}
}

// Without a container runtime, podconfigd computes the status too.
func TestBy(t *testing.T) {
	for by, want := range map[string]string{"runtime": "Pending, 0/1 ready, 0 restarts, by podconfigd\n", "source": "Pending, 0/1 ready, 0 restarts\n"} {
		t.Run(by, func(t *testing.T) {
			pod := &v1alpha1.StoryPod{Status: "Pending", Ready: "0/1", Restarts: "0", StatusBy: by}
			containsText(t, storyPage(&v1alpha1.Story{Pod: pod}), "Status:    "+want)
		})
	}
}

func TestTheStateDirectory(t *testing.T) {
	ago := time.Now().Add(-12*time.Minute - 30*time.Second) // in minutes, for the next half a minute
	for name, c := range map[string]struct {
		state v1alpha1.StateStatus
		want  string
	}{
		"stored":    {v1alpha1.StateStatus{Dir: "/state", Stored: true, Segments: 2, Bytes: 2049}, "Stored:    /state (2 files, 3 KiB)\n"},
		"one file":  {v1alpha1.StateStatus{Dir: "/state", Stored: true, Segments: 1, Bytes: 1}, "Stored:    /state (1 file, 1 KiB)\n"},
		"full disk": {v1alpha1.StateStatus{Dir: "/state", FailedSince: &ago, LastError: "disk is full"}, "Stored:    no, for 12m: disk is full\n"},
	} {
		t.Run(name, func(t *testing.T) { contains(t, &v1alpha1.Status{State: &c.state}, c.want) })
	}
}

func TestThePodsAPIOfTheKubelet(t *testing.T) {
	ago := time.Now().Add(-12*time.Minute - 30*time.Second) // in minutes, for the next half a minute
	for name, c := range map[string]struct {
		api  v1alpha1.KubeletPodsAPI
		want string
	}{
		"healthy": {v1alpha1.KubeletPodsAPI{Connected: true}, "Health:    ok\n"},
		"other pods": {
			v1alpha1.KubeletPodsAPI{
				Socket: "/s", Connected: true, Since: &ago, Pods: 4, Statuses: 3,
				UnknownToKubelet: []string{"a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7"}, UnknownToSources: []string{"b/1"},
			},
			"Pods API:  /s, for 12m: the status of 3 of 4 pods is by the kubelet\n           the kubelet does not have a/1, a/2, a/3, a/4, a/5 and 2 more\n           the kubelet has, and no source does: b/1\n",
		},
		"a problem": {v1alpha1.KubeletPodsAPI{}, "Health:    the kubelet's Pods API gives no status\n"},
		"no answer": {
			v1alpha1.KubeletPodsAPI{Socket: "/s", Since: &ago, Statuses: 3, LastError: "connection refused"},
			"Pods API:  /s gives no status, for 12m; the last one of 3 pods stands: connection refused\n",
		},
		"no answer yet": {v1alpha1.KubeletPodsAPI{Socket: "/s"}, "Pods API:  /s has given no status yet\n"},
		"never an answer": {
			v1alpha1.KubeletPodsAPI{Socket: "/s", LastError: "connection refused"},
			"Pods API:  /s has given no status yet: connection refused\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			contains(t, &v1alpha1.Status{Kubelet: &v1alpha1.KubeletStatus{PodsAPI: &c.api}}, c.want)
		})
	}
}

// contains checks that the text of a status has a part.
func contains(t *testing.T, status *v1alpha1.Status, want string) {
	t.Helper()
	containsText(t, overview(status), want)
}

func containsText(t *testing.T, p *page, want string) {
	t.Helper()
	var out strings.Builder
	if err := p.write(&out, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), want) {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// Wide characters take two cells: a line with them must not wrap, which would scroll the screen.
func TestPageWithWideCharactersFitsTheScreen(t *testing.T) {
	p := new(page)
	p.addLine(normal, "%s", strings.Repeat("漢", 30))
	for width := 2; width < 70; width++ {
		if got := ansi.StringWidth(p.cut(width, 5).lines[0].text); got > width {
			t.Errorf("%d cells on a screen of %d", got, width)
		}
	}
}

// The orphans of the runtime have a line, and those that are not known yet.
func TestOrphans(t *testing.T) {
	for want, r := range map[string]v1alpha1.RuntimeStatus{
		"": {},
		"Orphans:   2 pods in the runtime are in no source":                                                                    {Orphans: 2},
		"Orphans:   0 pods in the runtime are in no source; 3 more are in none yet: not all sources have delivered their pods": {OrphansWaiting: 3},
	} {
		var lines []string
		for _, line := range runtimeSection(&r).lines {
			if strings.HasPrefix(line.text, "Orphans:") {
				lines = append(lines, line.text)
			}
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A long file name does not push the columns of the other files to the right.
func TestALongFileName(t *testing.T) {
	long := strings.Repeat("é", 120) + ".yaml"
	page := manifestsSection(&v1alpha1.SourceStatus{File: &v1alpha1.FileStatus{Manifests: []v1alpha1.Manifest{
		{Path: "/m/" + long, State: v1alpha1.ManifestAccepted}, {Path: "/m/web.yaml", State: v1alpha1.ManifestAccepted, Namespace: "default", Name: "web-node1"},
	}}})
	for _, line := range page.lines {
		if utf8.RuneCountInString(line.text) > 100 {
			t.Errorf("the line %q has %d characters", line.text, utf8.RuneCountInString(line.text))
		}
	}
}

func TestOwnersText(t *testing.T) {
	for want, o := range map[string]v1alpha1.OwnersStatus{
		"":                            {}, // as for a client that does not see every pod
		"5 known":                     {Known: 5},
		"5 known, 2 waiting: refused": {Known: 5, Waiting: 2, LastError: "refused"},
		"0 known, 1 waiting; a is forbidden; b is not found; and 3 more": {Waiting: 1, Notes: []string{"a is forbidden", "b is not found"}, NotesOmitted: 3},
	} {
		if got := ownersText(&o); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDevicesText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(-5 * time.Second)
		for want, d := range map[string]v1alpha1.DevicesStatus{
			"not listed yet: refused":                {LastError: "refused"},
			"2 pods, listed 5s ago":                  {Pods: 2, LastList: &at},
			"2 pods, listed 5s ago: does not answer": {Pods: 2, LastList: &at, LastError: "does not answer"},
		} {
			if got := devicesText(&d); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}
