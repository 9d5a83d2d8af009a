package podsapi

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
)

const (
	// soon is a second, and what a busy machine takes.
	soon = 1100 * time.Millisecond
	// forever is the delay of a status that never came.
	forever = time.Duration(math.MaxInt64)
)

// quiet is the time for which logCost measures. Meanwhile, the test asks for nothing.
const quiet = 30 * time.Second

// logDelays compares what both clients got since a time: each status of the kubelet reaches a subscriber of podconfigd within a second,
// unless a newer one follows by then. A subscriber can have it already: a kubelet that starts again can compute the status of
// before, and say so in an event.
func (n *node) logDelays(t *testing.T, since time.Time) {
	t.Helper()
	<-time.After(2 * time.Second)
	n.theirs.mu.Lock()
	defer n.theirs.mu.Unlock()
	n.ours.mu.Lock()
	defer n.ours.mu.Unlock()
	var delays []time.Duration
	events, skipped, there := 0, 0, 0
	for name, theirs := range n.theirs.pods {
		for i, event := range theirs {
			if event.at.Before(since) || event.status == nil {
				continue
			}
			events++
			at := slices.IndexFunc(n.ours.pods[name], func(m moment) bool {
				return m.at.After(event.at.Add(-time.Second)) && equality.Semantic.DeepEqual(m.status, event.status)
			})
			delay := forever
			if at >= 0 {
				delay = n.ours.pods[name][at].at.Sub(event.at)
			}
			switch {
			case delay > soon && equality.Semantic.DeepEqual(n.ours.last(name, event.at), event.status):
				there++
			case at >= 0:
				delays = append(delays, delay)
			case i+1 < len(theirs) && theirs[i+1].at.Sub(event.at) < soon:
				skipped++
			case time.Since(event.at) > 2*time.Second:
				t.Errorf("%s: the status of %v never came; it differs from the one before (-):\n%s", name, event.at, cmp.Diff(n.ours.last(name, event.at), event.status))
			}
		}
	}
	slices.Sort(delays)
	if len(delays) == 0 {
		t.Fatal("no status came")
	}
	p50, p99 := delays[len(delays)/2], delays[len(delays)*99/100]
	late := 0
	for _, delay := range delays {
		if delay > soon {
			late++
		}
	}
	t.Logf("%d events of the kubelet, %d came, %d were replaced by a newer one within a second, %d changed nothing; after a direct client p50 %v, p99 %v, the last %v; %d later than a second",
		events, len(delays), skipped, there, p50, p99, delays[len(delays)-1], late)
	if late > 0 {
		t.Errorf("%d statuses came later than a second after the event", late)
	}
}

// logCost compares the cost of podconfigd with and without the Pods API, each with one subscriber, and logs it.
func (n *node) logCost(t *testing.T, baseline *exec.Cmd) {
	t.Helper()
	names := []string{"podconfigd", "podconfigd without the Pods API"}
	cmds := []*exec.Cmd{n.cmd, baseline}
	var before [2]time.Duration
	for i, cmd := range cmds {
		before[i], _ = taken(t, cmd)
	}
	<-time.After(quiet)
	for i, cmd := range cmds {
		cpu, memory := taken(t, cmd)
		t.Logf("%s takes %v of CPU in %v, and has %d KiB of memory", names[i], cpu-before[i], quiet, memory>>10)
	}
}

// taken returns what a process took: the time of CPU, and its memory in bytes.
func taken(t *testing.T, cmd *exec.Cmd) (cpu time.Duration, memory int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest) // utime and stime, in hundredths of a second, and rss, in pages
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return time.Duration(number(f[11])+number(f[12])) * 10 * time.Millisecond, number(f[21]) * os.Getpagesize()
}
