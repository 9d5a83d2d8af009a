package upgrade

import (
	"bytes"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

var (
	withEarlier = flag.Bool("earlier", false, "build the earlier version, and run it")
	record      = flag.Bool("record", false, "with -earlier: record what the earlier version says")
)

// The recorded answers and the state directory are of a daemon with these pods, in this order.
var recordedPods = []string{"first", "second"}

const (
	helpFile, configFile, answersFile, stateDir = "testdata/help.txtar", "testdata/config.yaml", "testdata/answers.txtar", "testdata/state"
	positionFile                                = "testdata/position"
)

// sections returns the files of an archive by name.
func sections(t *testing.T, path string) map[string]string {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

// A flag or a command that is not shown any more is still there, hidden and deprecated, or its error
// names what replaces it.
func TestRecordedFlags(t *testing.T) {
	if *record {
		_, before := versions(t)
		archive := &txtar.Archive{Comment: []byte("The help of each command of the earlier version.\n\n")}
		visit(nil, func(path ...string) string {
			help := output(t, before.podconfigd, append(path, "--help")...)
			archive.Files = append(archive.Files, txtar.File{Name: strings.Join(append([]string{"podconfigd"}, path...), " "), Data: []byte(help)})
			return help
		})
		if err := os.WriteFile(helpFile, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	help := sections(t, helpFile)
	compareFlags(t, current(t), func(path ...string) string {
		return help[strings.Join(append([]string{"podconfigd"}, path...), " ")]
	})
}

// The configuration that the earlier version printed is valid, and means the same.
func TestRecordedConfiguration(t *testing.T) {
	if *record {
		_, before := versions(t)
		testutil.WriteFile(t, configFile, output(t, before.podconfigctl, append([]string{"config", "print"}, configFlags...)...))
	}
	config, err := os.ReadFile(configFile)
	if err != nil {
		t.Fatal(err)
	}
	compareConfiguration(t, current(t), string(config))
}

// This version's clients read what the earlier version's daemon answered.
func TestRecordedAnswers(t *testing.T) {
	if *record {
		recordDaemon(t)
	}
	answers := sections(t, answersFile)
	socket := filepath.Join(testutil.ShortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.RequestURI()]
		if !ok {
			http.Error(w, "the request is not recorded: "+r.URL.RequestURI(), http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", http.DetectContentType([]byte(answer)))
		_, _ = io.WriteString(w, answer)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	defer func() { _ = server.Close(); <-served }()
	const want = `status: node1 ready=true pods=2 sources=1
pods: first-node1
lookup: first-node1 of file
pods: second-node1
lookup: second-node1 of file
history: first-node1
history: second-node1
stream: ADD first-node1
stream: ADD second-node1
`
	m := &machine{socket: socket}
	if got := m.ask(t, current(t).probe, socket, "http"); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// recordedMachine is a machine with the manifest directory of the recorded state: the path is part of
// the UID of a static pod.
func recordedMachine(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.manifests = filepath.Join(os.TempDir(), "podconfigd-recorded")
	if err := os.MkdirAll(m.manifests, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Open(m.manifests)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { // for tests of other checkouts
		t.Fatal(err)
	}
	empty := func() {
		left, _ := filepath.Glob(filepath.Join(m.manifests, "*"))
		for _, path := range left {
			_ = os.Remove(path)
		}
	}
	empty()
	t.Cleanup(func() { empty(); _ = lock.Close() })
	return m
}

// A daemon goes on with the state directory of the earlier version, and its subscriber resumes. The static pods keep the
// UIDs that the earlier version gave them, which are those of kubelet 1.36. A later one also stored the version in a file.
func TestRecordedStateDirectory(t *testing.T) {
	now := current(t)
	for name, file := range map[string]string{"no file": "", "file": `{"version":"1.36","source":"state"}`, "garbage": "{"} {
		t.Run(name, func(t *testing.T) {
			m := recordedMachine(t)
			state := filepath.Join(m.dir, "state")
			if err := os.CopyFS(state, os.DirFS(stateDir)); err != nil {
				t.Fatal(err)
			}
			if file != "" {
				testutil.WriteFile(t, filepath.Join(state, "kubelet.json"), file)
			}
			for _, pod := range append(recordedPods, "third") {
				m.put(t, pod)
			}
			m.daemon(t, now, "--state-max-age", "87600h")
			position, err := os.ReadFile(positionFile)
			if err != nil {
				t.Fatal(err)
			}
			instance, since, _ := strings.Cut(strings.TrimSpace(string(position)), " ")
			if got := m.instance(t); got != instance {
				t.Errorf("the instance is %s, want %s", got, instance)
			}
			s := run(t, now.probe, m.socket, "follow", instance, since)
			s.says(t, "ADD third-node1")
			if log := s.log.String(); log != "ADD second-node1\nADD third-node1\n" && !strings.HasPrefix(log, "ADD second-node1\nADD third-node1\nBOOKMARK") {
				t.Errorf("the subscriber got\n%s", log)
			}
			if got := m.ask(t, now.podconfigctl, "history"); !strings.Contains(got, "first-node1") || !strings.Contains(got, "third-node1") {
				t.Errorf("the history is\n%s", got)
			}
		})
	}
}

// recordDaemon records the answers, the state directory, and the position of a subscriber that has
// received the first pod.
func recordDaemon(t *testing.T) {
	t.Helper()
	_, before := versions(t)
	m := recordedMachine(t)
	m.put(t, recordedPods[0])
	d := m.daemon(t, before)
	status, err := client.New(m.socket).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testutil.WriteFile(t, positionFile, status.Instance+" "+strconv.FormatInt(status.Revision, 10)+"\n")
	m.put(t, recordedPods[1])
	testutil.Until(t, "the second pod", func() bool {
		status, err := client.New(m.socket).Status(t.Context())
		return err == nil && status.Pods == len(recordedPods)
	})
	recordAnswers(t, m, before)
	d.end(t, syscall.SIGTERM) // after a clean stop, any boot of any machine goes on
	if err := os.RemoveAll(stateDir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(stateDir, os.DirFS(filepath.Join(m.dir, "state"))); err != nil {
		t.Fatal(err)
	}
}

// recordAnswers records the answers to the requests of the probe, which go through a proxy.
func recordAnswers(t *testing.T, m *machine, before version) {
	t.Helper()
	archive := &txtar.Archive{Comment: []byte("The answers of the earlier version's daemon to the requests of the probe.\n\n")}
	front := filepath.Join(m.dir, "front")
	l, err := net.Listen("unix", front)
	if err != nil {
		t.Fatal(err)
	}
	behind := client.New(m.socket)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := behind.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		var body bytes.Buffer
		_, _ = io.Copy(io.MultiWriter(&body, flusher{w}), resp.Body)
		archive.Files = append(archive.Files, txtar.File{Name: r.URL.RequestURI(), Data: body.Bytes()})
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	m.ask(t, before.probe, front, "http")
	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-served
	if err := os.WriteFile(answersFile, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

// flusher writes a stream.
type flusher struct{ http.ResponseWriter }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}
