package clients

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
)

// gapEvent is the event of a record that says that changes are missing.
const gapEvent = "podconfigd.gap"

// exported is a log record.
type exported struct{ event, instance, revision, uid, body string }

func (r *exported) String() string {
	return strings.TrimPrefix(r.event, "podconfigd.pod.") + " " + r.uid + " " + r.revision
}

// only returns the changes of a node without the doubles, in the order of the records, and how many doubles there are.
func (n *exportingNode) only(all []exported) (changes []string, doubles int) {
	known := make(map[string]bool)
	for i := range all {
		r := &all[i]
		switch {
		case r.event == gapEvent:
			changes = append(changes, r.event+": "+r.body)
		case r.instance != n.first.Instance || r.revision == "": // another node, or one of the pods at the start
		case known[r.revision+r.uid]:
			doubles++
		default:
			known[r.revision+r.uid], changes = true, append(changes, r.String())
		}
	}
	return changes, doubles
}

// difference returns an error if these are not the changes in the history after the first position.
func (n *exportingNode) difference(t *testing.T, got []string) error {
	t.Helper()
	var want []string
	for r, err := range n.client.History(t.Context(), client.HistoryOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Gap != "" {
			t.Errorf("the history has a gap: %s", r.Gap)
		}
		if r.Revision > n.first.Revision && r.UID != "" {
			want = append(want, fmt.Sprintf("%s %s %d", strings.ToLower(string(r.Op)), r.UID, cmp.Or(r.UpdateRevision, r.Revision)))
		}
	}
	for i := range max(len(want), len(got)) {
		if i >= min(len(want), len(got)) || want[i] != got[i] {
			return fmt.Errorf("%s: %d records, want %d: number %d is %q, want %q", n.dir, len(got), len(want), i,
				got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))])
		}
	}
	return nil
}

// recordsOfFile returns the records in the file of a Collector that has ended.
func recordsOfFile(t *testing.T, path string) (all []exported) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := json.NewDecoder(bufio.NewReader(file)); lines.More(); {
		var line struct {
			ResourceLogs []struct {
				ScopeLogs []struct {
					LogRecords []struct {
						EventName  string
						Body       struct{ StringValue string }
						Attributes []struct {
							Key   string
							Value struct{ StringValue, IntValue string }
						}
					}
				}
			}
		}
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		for _, r := range line.ResourceLogs[0].ScopeLogs[0].LogRecords {
			of := make(map[string]string)
			for _, a := range r.Attributes {
				of[a.Key] = a.Value.StringValue + a.Value.IntValue
			}
			all = append(all, exported{r.EventName, of["podconfigd.instance"], of["podconfigd.revision"], of["k8s.pod.uid"], r.Body.StringValue})
		}
	}
	return all
}
