package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

func TestTheStream(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	r := d.read(t, "")
	r.expect(t, v1alpha1.OpAdd, "a")
	if u := r.expect(t, v1alpha1.OpBookmark); !u.InitialSyncComplete || u.Ready == nil || !*u.Ready || !u.Sources["file"].Seen {
		t.Errorf("the bookmark is %+v", u)
	}
	d.add("b", 1)
	b := r.expect(t, v1alpha1.OpAdd, "b")
	d.add("c", 1)
	r.expect(t, v1alpha1.OpAdd, "c")

	resumed := d.read(t, fmt.Sprintf("?instance=%s&since=%d", b.Instance, b.Revision))
	resumed.expect(t, v1alpha1.OpAdd, "c")
	if u := d.read(t, "?instance=other&since=1").expect(t, v1alpha1.OpBookmark); !u.Reset || !strings.Contains(u.Message, "instance other") {
		t.Errorf("of another instance: %+v", u)
	}
	d.read(t, "?mode=snapshot").expect(t, v1alpha1.OpSet, "a", "b", "c")
	d.read(t, "?fieldSelector=metadata.name%3Db").expect(t, v1alpha1.OpAdd, "b")
}

func TestParametersAtFaultAreNamed(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	for query, want := range map[string]string{
		"from=1":                `unknown parameter "from": expected one of mode, instance, since`,
		"mode=all":              `parameter "mode": unknown mode "all": expected incremental, snapshot-and-updates or snapshot`,
		"since=x":               `parameter "since": "x" is not a revision`,
		"since=-1":              `parameter "since": "-1" is not a revision`,
		"instance=i":            `parameter "instance": requires since`,
		"ops=ADD,FOO":           `parameter "ops": unknown operation "FOO"`,
		"ops=SET":               `parameter "ops": mode incremental sends none of them: add one of [ADD UPDATE REMOVE DELETE RECONCILE SYNC PLEG HOUSEKEEPING]`,
		"mode=snapshot&ops=ADD": `parameter "ops": mode snapshot sends none of them: add one of [SET SYNC PLEG HOUSEKEEPING]`,
		"mode=snapshot-and-updates&ops=ADD,REMOVE": `parameter "ops": mode snapshot-and-updates sends none of them: add one of [SET UPDATE`,
		"source=apiserver":                         `parameter "source": unknown source "apiserver": expected file, http, api, file:NAME or http:NAME`,
		"labelSelector=%3D%3D":                     `parameter "labelSelector"`,
		"fieldSelector=spec.foo%3D1":               `parameter "fieldSelector": field label not supported: spec.foo;`,
		"mirrorPods=maybe":                         `parameter "mirrorPods": expected true or false, got "maybe"`,
		"mode=a&since=b":                           "parameter \"mode\": unknown mode \"a\": expected incremental, snapshot-and-updates or snapshot\nparameter \"since\"",
		"since=1&since=2":                          `parameter "since": given 2 times`,
		"%zz":                                      "parsing the query: ",
	} {
		t.Run(query, func(t *testing.T) {
			code, body := d.get(t, "/v1alpha1/updates?"+query)
			var status metav1.Status
			if err := json.Unmarshal([]byte(body), &status); err != nil || status.Kind != "Status" || status.Reason != metav1.StatusReasonBadRequest {
				t.Errorf("%s: %v in %s", query, err, body)
			}
			if code != http.StatusBadRequest || !strings.Contains(status.Message, want) {
				t.Errorf("%s: %d %s, want %s", query, code, status.Message, want)
			}
		})
	}
}

func TestOtherPaths(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	for path, want := range map[string]string{
		"/pods":            `"items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"`,
		"/v1alpha1/status": `"revision":`,
		"/healthz":         "ok",
		"/livez?verbose":   "[+]ping ok\n[+]syncloop ok\nlivez check passed\n",
		"/readyz?verbose":  "[+]ping ok\n[+]sources ok\nreadyz check passed\n",
		"/version":         `{"version":"test"}`,
		"/metrics":         `podconfigd_journal_updates_total{op="ADD",source="file"} 1`,
	} {
		t.Run(path, func(t *testing.T) {
			if code, body := d.get(t, path); code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s, want %s", path, code, body, want)
			}
		})
	}
	if code, body := d.get(t, "/nothing"); code != http.StatusNotFound || !strings.Contains(body, "/v1alpha1/updates") {
		t.Errorf("/nothing: %d %s", code, body)
	}
	d.fallSick("it stands still")
	if code, body := d.get(t, "/livez"); code != http.StatusInternalServerError || !strings.Contains(body, "[-]syncloop failed: it stands still") {
		t.Errorf("/livez of the sick: %d %s", code, body)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %s, Allow %q", resp.Status, resp.Header.Get("Allow"))
	}
	head, err := d.http.Head("http://localhost/pods")
	if err != nil {
		t.Fatal(err)
	}
	if _ = head.Body.Close(); head.StatusCode != http.StatusOK {
		t.Errorf("HEAD: %s", head.Status)
	}
}

// Clients that misbehave do not affect others, which get every update. The server ends in
// time.
func TestMisbehavingClientsDisturbNoOne(t *testing.T) {
	d := serveJournal(t, journal.Options{MaxUpdates: 100})
	good := d.read(t, "")
	good.expect(t, v1alpha1.OpBookmark)

	stuck := d.dial(t) // it sends a request, and does not read
	fmt.Fprint(stuck, "GET /v1alpha1/updates HTTP/1.1\r\nHost: localhost\r\n\r\n")
	for answer := bufio.NewReader(stuck); ; { // only the current state
		if line, err := answer.ReadString('\n'); err != nil {
			t.Fatal(err)
		} else if strings.Contains(line, string(v1alpha1.OpBookmark)) {
			break
		}
	}
	garbage := d.dial(t)
	fmt.Fprint(garbage, "\x00\xff\x00 what is this\r\n\r\n")
	halfway := d.dial(t) // half a header, and then nothing
	fmt.Fprint(halfway, "GET /v1alpha1/updates HTTP/1.1\r\nHost: loc")
	large := d.dial(t)
	fmt.Fprint(large, "GET /v1alpha1/updates HTTP/1.1\r\nHost: localhost\r\nX-Large: ")
	_, _ = large.Write(bytes.Repeat([]byte("x"), 1<<20)) // the server may close it first
	if answer, _ := io.ReadAll(io.LimitReader(large, 64)); !bytes.Contains(answer, []byte("431")) {
		t.Errorf("a header of 1 MiB was answered %q", answer)
	}
	if answer, _ := io.ReadAll(garbage); !bytes.Contains(answer, []byte("400")) {
		t.Errorf("garbage was answered %q", answer)
	}

	const updates = 500
	go func() {
		for i := range updates {
			d.add(fmt.Sprintf("p%d", i), 8<<10) // more than any socket buffer holds
		}
	}()
	seen := 0
	for seen < updates {
		u := good.next(t)
		if u.Reset {
			seen = 0 // it fell behind, and gets the state again
		}
		seen += len(u.Pods)
		if seen == 10 {
			leaver := d.dial(t) // disconnects within a line
			fmt.Fprint(leaver, "GET /v1alpha1/updates HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if _, err := leaver.Read(make([]byte, 300)); err != nil {
				t.Error(err)
			}
			_ = leaver.Close()
		}
	}
	// After a reset, it may get the state first, but nothing else.
	d.add("after", 1)
	status := d.journal.Status()
	var lag int64
	for _, s := range status.Subscribers {
		lag = max(lag, s.Lag)
	}
	if lag == 0 {
		t.Errorf("the stuck client has no lag: %+v", status.Subscribers)
	}
}

func TestTheStatusNamesSubscribers(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.read(t, "?mode=snapshot").expect(t, v1alpha1.OpBookmark)
	subscribers := d.journal.Status().Subscribers
	if len(subscribers) != 1 {
		t.Fatalf("%d subscribers", len(subscribers))
	}
	s := subscribers[0]
	if s.PID == 0 || s.UID == nil || s.Mode != v1alpha1.ModeSnapshot || !strings.HasPrefix(s.UserAgent, "Go-http-client") {
		t.Errorf("got %+v", s)
	}
}

// serveMetrics runs RunMetrics until the test ends, and returns its address.
func serveMetrics(t *testing.T, server *Server) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error)
	go func() { done <- server.RunMetrics(ctx, l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel(errStopped)
		if err := <-done; !errors.Is(err, errStopped) {
			t.Errorf("RunMetrics returned %v", err)
		}
	})
	return l.Addr().String()
}

func TestRunMetricsServesNoPods(t *testing.T) {
	registry := prometheus.NewRegistry()
	address := serveMetrics(t, New(Options{Journal: journal.New(journal.Options{}), Registerer: registry, Gatherer: registry}))
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 200, "/pods": 404, "/v1alpha1/updates": 404} {
		t.Run(path, func(t *testing.T) {
			resp, err := http.Get("http://" + address + path)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
			}
		})
	}
}

// /pods is the same as the kubelet's: mirror pods are only included on request.
func TestPodsHasMirrorPodsOnlyOnRequest(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{podWith("a", ""), podWith("mirror-a", ""), podWith("b", "")}})
	for path, want := range map[string]string{
		"/pods": "a b", "/pods/": "a b", "/pods?mirrorPods=false": "a b", "/pods?mirrorPods=true": "a b mirror-a", "/pods/?mirrorPods=1": "a b mirror-a",
	} {
		t.Run(path, func(t *testing.T) {
			code, body := d.get(t, path)
			var list v1.PodList
			if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK {
				t.Fatalf("%s: %d, %v", path, code, err)
			}
			var names []string
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		})
	}
	for query, want := range map[string]string{
		"mirrorPods=yes": `parameter "mirrorPods": expected true or false, got "yes"`, "mirrorpods=true": `unknown parameter "mirrorpods": expected one of mirrorPods`,
		"resourceVersions=x": `parameter "resourceVersions": expected true or false, got "x"`, "resourceVersions=true&fields=spec": `parameter "resourceVersions": not supported with "fields"`,
		"mirrorPods=true&mirrorPods=true": `parameter "mirrorPods": given 2 times`,
	} {
		t.Run(query, func(t *testing.T) {
			code, body := d.get(t, "/pods?"+query)
			var status metav1.Status
			if err := json.Unmarshal([]byte(body), &status); err != nil || code != http.StatusBadRequest || !strings.Contains(status.Message, want) {
				t.Errorf("%s: %d %s, %v, want %s", query, code, body, err, want)
			}
		})
	}
	if code, _ := d.get(t, "/pods/a"); code != http.StatusNotFound {
		t.Errorf("/pods/a: %d", code)
	}
}

// A missing body would prevent net/http from detecting that the client is gone. HEAD has
// no stream.
func TestRequestsThatWouldNeverEnd(t *testing.T) {
	t.Parallel() // it waits
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	for _, path := range []string{"/v1alpha1/updates", "/api/v1/pods?watch=true"} {
		conn := d.dial(t)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", path)
		if answer, _ := io.ReadAll(conn); !bytes.Contains(answer, []byte("400")) || !bytes.Contains(answer, []byte("GET takes no body")) {
			t.Errorf("%s with a body was answered %q", path, answer)
		}
		conn = d.dial(t)
		fmt.Fprintf(conn, "HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
		if answer, _ := io.ReadAll(conn); bytes.Count(answer, []byte("HTTP/1.1 200 OK")) != 2 {
			t.Errorf("HEAD %s and a GET after it were answered %q", path, answer)
		}
	}
	if subscribers := d.journal.Status().Subscribers; len(subscribers) > 0 {
		t.Errorf("there are subscribers left: %+v", subscribers)
	}
}
