package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// linesAs makes a request of a user, and returns the lines of its answer.
func (d *daemon) linesAs(t *testing.T, uid int, path string) *bufio.Scanner {
	t.Helper()
	c := dialAs(t, d.socket, uid)
	_ = c.SetDeadline(time.Now().Add(testutil.Patience))
	request(t, c, path, "")
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("user %d: %s", uid, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 64<<20)
	return lines
}

// One user takes all places that it gets, on each interface, and reads nothing. A second one reads one line, and then
// nothing for long. A third one gets a place, and each update, while they hold what they have.
func TestThreeUsers(t *testing.T) {
	const hog, slow, reader, updates = 64001, 64002, 64003, 100
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Subscribers: 16, SubscribersPerPeer: 16, Lists: 4, ListsPerPeer: 4, Connections: 64, ConnectionsPerPeer: 64})
	d.open(t)
	d.add("large", 256<<10)
	for i := range 6 { // half of three quarters of 16
		switch i % 3 {
		case 0:
			unreadCall(t, dialAs(t, d.socket, hog), "/podconfigd.v1alpha1.PodConfig/Watch", nil)
		case 1:
			unreadCall(t, dialAs(t, d.pods, hog), "/v1alpha1.Pods/WatchPods", nil)
		default:
			if code, body := askOn(t, dialAs(t, d.socket, hog), "/api/v1/pods?watch=true"); code != http.StatusOK {
				t.Fatalf("%d %s", code, body)
			}
		}
	}
	for _, path := range []string{"/pods", "/api/v1/pods"} { // and of 4 lists
		if code, _ := askOn(t, dialAs(t, d.socket, hog), path); code != http.StatusOK {
			t.Fatal(code)
		}
	}
	code, body := askOn(t, dialAs(t, d.socket, hog), "/v1alpha1/updates")
	refused(t, code, body, "too many subscribers: user 64001 has 6")
	code, body = askOn(t, dialAs(t, d.socket, hog), "/pods")
	refused(t, code, body, "too many lists at a time: user 64001 has 2")

	var slowly []*bufio.Scanner
	for range 3 { // half of what is left
		lines := d.linesAs(t, slow, "/v1alpha1/updates")
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		slowly = append(slowly, lines)
	}
	code, body = askOn(t, dialAs(t, d.socket, slow), "/v1alpha1/updates")
	refused(t, code, body, "too many subscribers: user 64002 has 3")

	follow := func(lines *bufio.Scanner, last string) (seen []string) {
		t.Helper()
		for lines.Scan() {
			u := new(v1alpha1.Update)
			if err := json.Unmarshal(lines.Bytes(), u); err != nil {
				t.Fatal(err)
			}
			for _, p := range u.Pods {
				if seen = append(seen, p.Name); p.Name == last {
					return seen
				}
			}
		}
		t.Fatalf("the stream has ended after %d pods: %v", len(seen), lines.Err())
		return nil
	}
	fast := []*bufio.Scanner{d.linesAs(t, reader, "/v1alpha1/updates"), d.linesAs(t, reader, "/v1alpha1/updates")}
	for _, lines := range fast {
		follow(lines, "large")
	}
	for i := range updates {
		name := fmt.Sprint("pod-", i)
		d.add(name, 64<<10)
		for _, lines := range fast {
			if seen := follow(lines, name); len(seen) != 1 {
				t.Fatalf("a reader got %v at %s", seen, name)
			}
		}
	}
	if code, body := askOn(t, dialAs(t, d.socket, reader), "/api/v1/namespaces/default/pods/pod-1"); code != http.StatusOK {
		t.Errorf("a pod for the reader: %d %s", code, body)
	}
	for _, lines := range slowly { // who reads again gets everything
		follow(lines, fmt.Sprint("pod-", updates-1))
	}
}
