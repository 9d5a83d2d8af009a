package podsapi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// long is how long a status stands that has to come: many times what its event takes on a slow machine.
const long = 15 * time.Second

// quiet is the time for which logCost measures. Meanwhile, the test asks for nothing.
const quiet = 30 * time.Second

// logDelays compares what both clients got since a time: each status of the kubelet reaches a subscriber of podconfigd by its event,
// unless a newer one follows. It logs the delays.
func (n *node) logDelays(t *testing.T, since time.Time) {
	t.Helper()
	testutil.Eventually(t, func() error {
		d, err := n.delays(since)
		if err != nil {
			return err
		}
		slices.Sort(d.came)
		if len(d.came) == 0 {
			return errors.New("no status came")
		}
		t.Logf("%d events of the kubelet, %d came, %d were replaced by a newer one, %d changed nothing; after a direct client p50 %v, p99 %v, the last %v",
			d.events, len(d.came), d.replaced, d.there, d.came[len(d.came)/2], d.came[len(d.came)*99/100], d.came[len(d.came)-1])
		return nil
	})
}

// delays are those of the statuses that came. The others were replaced by a newer one, or were there before.
type delays struct {
	came                    []time.Duration
	events, replaced, there int
}

// delays returns an error if the last status of a pod did not come yet, or one that stood for long did not come. A subscriber can have
// a status already: a kubelet that starts again can compute the status of before, and say so in an event.
func (n *node) delays(since time.Time) (d delays, err error) {
	n.theirs.mu.Lock()
	defer n.theirs.mu.Unlock()
	n.ours.mu.Lock()
	defer n.ours.mu.Unlock()
	for name, theirs := range n.theirs.pods {
		for i, event := range theirs {
			if event.at.Before(since) || event.status == nil {
				continue
			}
			d.events++
			at := slices.IndexFunc(n.ours.pods[name], func(m moment) bool {
				return m.at.After(event.at.Add(-time.Second)) && equality.Semantic.DeepEqual(m.status, event.status)
			})
			delay := time.Duration(0)
			if at >= 0 {
				delay = n.ours.pods[name][at].at.Sub(event.at)
			}
			switch {
			case (at < 0 || delay > time.Second) && equality.Semantic.DeepEqual(n.ours.last(name, event.at), event.status):
				d.there++
			case at >= 0:
				d.came = append(d.came, delay)
			case i+1 < len(theirs) && theirs[i+1].at.Sub(event.at) < long:
				d.replaced++
			default:
				return d, fmt.Errorf("%s: the status of %v has not come; it differs from the one before (-):\n%s", name, event.at, cmp.Diff(n.ours.last(name, event.at), event.status))
			}
		}
	}
	return d, nil
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
