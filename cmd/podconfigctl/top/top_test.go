package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// start is the time of the tests.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testPod(i int, image string) *v1.Pod {
	return podtest.Pod(fmt.Sprintf("pod%04d=%s", i, image), podtest.UID(fmt.Sprint(i)), podtest.Phase(v1.PodPending))
}

// filled returns a model with that many pods, and a row in each pane.
func filled(t *testing.T, pods int) *model {
	t.Helper()
	m := newModel(t.Context(), &Config{})
	m.Update(tickMsg(start))
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	add := &v1alpha1.Update{Op: v1alpha1.OpAdd, Source: "file"}
	for i := range pods {
		add.Pods = append(add.Pods, testPod(i, "i:1"))
	}
	change := &v1alpha1.Update{Op: v1alpha1.OpUpdate, Source: "file", Revision: 2, Time: &start, Pods: []*v1.Pod{testPod(0, "i:2")}}
	m.Update(eventsMsg{{update: add}, {update: &v1alpha1.Update{Op: v1alpha1.OpBookmark, InitialSyncComplete: true}}, {update: change}})
	m.Update(statusMsg{status: &v1alpha1.Status{
		NodeName: "node1", Ready: true, StartTime: start, Pods: pods,
		Sources: []v1alpha1.SourceStatus{{Name: "file", Seen: true, File: &v1alpha1.FileStatus{Path: "/m", Manifests: []v1alpha1.Manifest{
			{Path: "/m/a.yaml", State: v1alpha1.ManifestAccepted}, {Path: "/m/日本.yaml", State: v1alpha1.ManifestRejected, Message: "日本.yaml:7: spec: \x1b[35mbad"},
		}}}},
		Subscribers: []v1alpha1.Subscriber{{ID: 1, PID: 7, Lag: 3}},
	}})
	return m
}

// No size of the terminal breaks the view: all lines fit, in each state.
func TestTheViewFitsEachSize(t *testing.T) {
	for name, keys := range map[string]string{"panes": "", "help": "?", "manifest": "2\r", "pod": "3\r", "update": "4\r", "filter": "/p"} {
		t.Run(name, func(t *testing.T) {
			m := filled(t, 100)
			for _, key := range keys {
				m.Update(tea.KeyPressMsg{Code: key, Text: strings.Trim(string(key), "\r")})
			}
			for width := range 170 {
				for height := range 60 {
					if width > 40 && width%16 != 0 || height > 10 && height%8 != 0 {
						continue
					}
					m.Update(tea.WindowSizeMsg{Width: width, Height: height})
					lines := m.screen()
					if width > 0 && len(lines) != height {
						t.Fatalf("%dx%d: %d lines", width, height, len(lines))
					}
					for _, line := range lines {
						if ansi.StringWidth(line) > width || strings.Contains(line, "\x1b[35m") {
							t.Fatalf("%dx%d: %q", width, height, line)
						}
					}
				}
			}
		})
	}
}

// The cursor stays on its pod while others come and go.
func TestTheCursorStaysOnItsRow(t *testing.T) {
	m := filled(t, 100)
	for range 50 {
		m.Update(tea.KeyPressMsg{Code: tea.KeyDown})
	}
	selected := func() string { return m.panes[panePods].selected().pod }
	if got := selected(); got != "default/pod0050" {
		t.Fatalf("selected %s", got)
	}
	remove := &v1alpha1.Update{Op: v1alpha1.OpRemove, Source: "file", Revision: 3}
	for i := range 40 {
		remove.Pods = append(remove.Pods, testPod(i, "i:1"))
	}
	m.Update(eventsMsg{{update: remove}})
	if got := selected(); got != "default/pod0050" {
		t.Errorf("selected %s after a removal", got)
	}
	if screen := ansi.Strip(strings.Join(m.screen(), "\n")); !strings.Contains(screen, "› default/pod0050") || !strings.Contains(screen, "Pods 60 ") {
		t.Errorf("the screen:\n%s", screen)
	}
}

// A stream with owners has a row for each top owner, with its pods below.
func TestPodsByOwner(t *testing.T) {
	m := filled(t, 0)
	owned := func(op v1alpha1.Op, owner string, pods ...int) event {
		u := &v1alpha1.Update{Op: op, Source: "api", Revision: 3, Owners: make(map[string][]v1alpha1.Owner)}
		for _, i := range pods {
			p := testPod(i, "i:1")
			if u.Pods = append(u.Pods, p); owner != "" {
				kind, name, _ := strings.Cut(owner, "/")
				u.Owners[string(p.UID)] = []v1alpha1.Owner{{Kind: "ReplicaSet", Name: "x"}, {Kind: kind, Name: name}}
			}
		}
		return event{update: u, owned: true}
	}
	shows := func(want ...string) {
		t.Helper()
		var got []string
		for _, r := range m.panes[panePods].shown {
			got = append(got, strings.TrimSpace(r.cells()[0].text+" "+r.cells()[2].text))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	m.Update(eventsMsg{{update: &v1alpha1.Update{Op: v1alpha1.OpBookmark}, restart: true, owned: true}, owned(v1alpha1.OpAdd, "", 4), owned(v1alpha1.OpAdd, "Deployment/web", 2, 3), owned(v1alpha1.OpAdd, "Node/node1", 1)})
	shows("deployment/web in default 2 pods", "default/pod0002 Pending", "default/pod0003 Pending", "no owner 1 pod", "default/pod0004 Pending",
		"node/node1 1 pod", "default/pod0001 Pending")
	updates := len(m.updates)
	m.Update(eventsMsg{owned(v1alpha1.OpReconcile, "Deployment/web", 4)})
	shows("deployment/web in default 3 pods", "default/pod0002 Pending", "default/pod0003 Pending", "default/pod0004 Pending",
		"node/node1 1 pod", "default/pod0001 Pending")
	if len(m.updates) != updates {
		t.Error("a change of the owner alone is an update")
	}
	m.setFilter("deployment/web 0003")
	shows("deployment/web in default 3 pods", "default/pod0003 Pending")
	if got := m.panes[panePods].count(); got != "1 of 4" {
		t.Errorf("count %q", got)
	}
	for _, key := range "3gywh\r" {
		m.Update(tea.KeyPressMsg{Code: key, Text: strings.Trim(string(key), "\r")})
	}
	if m.detail != nil || !strings.Contains(ansi.Strip(strings.Join(m.screen(), "\n")), "› deployment/web in default") {
		t.Error("the row of a group opens something, or has no cursor")
	}
	m.setFilter("")
	m.Update(eventsMsg{{update: &v1alpha1.Update{Op: v1alpha1.OpAdd, Source: "file", Pods: []*v1.Pod{testPod(7, "i:1")}}, restart: true}})
	shows("default/pod0007 Pending")
}

// All tables have their titles on a screen that has room for them.
func TestTitlesOfColumns(t *testing.T) {
	for name, c := range map[string]struct {
		width, height int
		want          bool
	}{"common": {120, 32, true}, "wide": {200, 32, true}, "just high enough": {80, 28, true}, "low": {80, 24, false}} {
		t.Run(name, func(t *testing.T) {
			m := filled(t, 3)
			m.Update(tea.WindowSizeMsg{Width: c.width, Height: c.height})
			screen := ansi.Strip(strings.Join(m.screen(), "\n"))
			for _, title := range []string{"DETAIL", "VERDICT", "RESETS"} {
				if got := strings.Contains(screen, title); got != c.want {
					t.Errorf("%s is shown: %v\n%s", title, got, screen)
				}
			}
		})
	}
}

// A manifest that is not accepted has what to do about it.
func TestTheVerdictHasItsMend(t *testing.T) {
	m := filled(t, 1)
	for _, key := range "2\r" {
		m.Update(tea.KeyPressMsg{Code: key, Text: strings.Trim(string(key), "\r")})
	}
	if screen := ansi.Strip(strings.Join(m.screen(), "\n")); !strings.Contains(screen, "Fix        correct /m/日本.yaml:7") || !strings.Contains(screen, "run podconfigctl validate") {
		t.Errorf("the screen:\n%s", screen)
	}
}

// What the daemon answers for a pod is not shown on a page of another pod that was opened meanwhile.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	for _, page := range "yhdw" {
		t.Run(string(page), func(t *testing.T) {
			m := filled(t, 2)
			m.focus = panePods
			m.openPod(pageHistory)
			first := m.detail
			m.pressInDetail(tea.KeyPressMsg{Code: tea.KeyEscape})
			m.panes[panePods].cursor = 1
			m.Update(tea.KeyPressMsg{Code: page, Text: string(page)})
			before := strings.Join(m.screen(), "\n")
			if !strings.Contains(before, "pod0001") {
				t.Fatalf("the screen:\n%s", before)
			}
			m.Update(loadedMsg{first, 1, func() []string { return []string{"the history of pod0000"} }})
			if after := strings.Join(m.screen(), "\n"); after != before {
				t.Errorf("the screen:\n%s", ansi.Strip(after))
			}
		})
	}
}

// A pod that changes faster than the daemon answers has its pages all the same, and asks one question at a time.
func TestAPodThatChangesWhileTheDaemonAnswers(t *testing.T) {
	for _, page := range "hdw" {
		t.Run(string(page), func(t *testing.T) {
			m := filled(t, 1)
			m.focus = panePods
			m.openPod(pageYAML)
			m.Update(tea.KeyPressMsg{Code: page, Text: string(page)})
			if screen := strings.Join(m.screen(), "\n"); !strings.Contains(screen, "waiting for the ") {
				t.Errorf("the page before it has its answer:\n%s", ansi.Strip(screen))
			}
			first := m.detail.request
			for i := range 3 {
				_, cmd := m.Update(eventsMsg{{update: &v1alpha1.Update{Op: v1alpha1.OpUpdate, Source: "file", Revision: int64(3 + i), Pods: []*v1.Pod{testPod(0, fmt.Sprint("i:", 3+i))}}}})
				if cmd != nil {
					t.Errorf("change %d asks again before there is an answer", i)
				}
			}
			answer := func(request int) tea.Cmd {
				_, cmd := m.Update(loadedMsg{m.detail, request, func() []string { return []string{fmt.Sprint("answer ", request)} }})
				return cmd
			}
			if answer(first) == nil {
				t.Error("a change since the question is not asked for")
			}
			if screen := strings.Join(m.screen(), "\n"); !strings.Contains(screen, fmt.Sprint("answer ", first)) {
				t.Errorf("the answer is not on the screen:\n%s", ansi.Strip(screen))
			}
			if answer(m.detail.request) != nil {
				t.Error("asked again without a change")
			}
		})
	}
}

// The key w of a source has what is wrong with it, and what to do.
func TestASourceHasItsMend(t *testing.T) {
	m := filled(t, 1)
	m.Update(statusMsg{status: &v1alpha1.Status{Sources: []v1alpha1.SourceStatus{
		{Name: "file", Degraded: true, LastError: "reading /m: permission denied", File: &v1alpha1.FileStatus{Path: "/m"}},
	}}})
	for _, key := range "1w" {
		m.Update(tea.KeyPressMsg{Code: key, Text: string(key)})
	}
	screen := ansi.Strip(strings.Join(m.screen(), "\n"))
	for _, want := range []string{"Error      reading /m: permission denied", "Fix        make /m readable again", "degraded: true"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is not on the screen:\n%s", want, screen)
		}
	}
}

// The cost of a screen does not depend on the number of pods.
func BenchmarkScreen(b *testing.B) {
	for _, pods := range []int{100, 5000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			m := newModel(b.Context(), &Config{})
			m.Update(tea.WindowSizeMsg{Width: 200, Height: 50})
			add := &v1alpha1.Update{Op: v1alpha1.OpAdd, Source: "file"}
			for i := range pods {
				add.Pods = append(add.Pods, testPod(i, "i:1"))
			}
			m.Update(eventsMsg{{update: add}})
			for b.Loop() {
				m.View()
			}
		})
	}
}
