package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// pollPeriod is the interval of checks for conditions without a notification.
const pollPeriod = 5 * time.Millisecond

// scenario is the state that the commands of one script share.
type scenario struct {
	tb      testing.TB
	workDir string
	socket  string
	http    *http.Client
	client  *client.Client

	// path is the manifest path of the last daemon.
	path   string
	daemon *daemon
	// streams are the open streams, by name; "" is the daemon's own.
	streams map[string]*stream
	// barriers counts the manifests of barriers.
	barriers int
}

type scenarioKey struct{}

func newScenario(tb testing.TB, workDir, socket string) *scenario {
	tb.Helper()
	return &scenario{
		tb: tb, workDir: workDir, socket: socket,
		client:  client.New(socket),
		streams: make(map[string]*stream),
		http: &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
		}},
	}
}

// finish ends everything that a script has started. It fails a script that did not expect
// every update.
func (sc *scenario) finish() {
	passed := !sc.tb.Failed() && !sc.tb.Skipped()
	if err := sc.shutdown(false); err != nil {
		sc.tb.Error(err)
	}
	if err := sc.settleStreams(); err != nil && passed {
		sc.tb.Error(err)
	}
}

// settleStreams checks and removes the streams, which have ended. Each must be correct,
// and the script must have expected all of its updates.
func (sc *scenario) settleStreams() error {
	var errs []error
	barrierOnly := sc.barrierOnly()
	for name, s := range sc.streams {
		if err := s.check(); err != nil {
			errs = append(errs, fmt.Errorf("stream %q: %w", name, err))
		}
		if left := new(expectation).arrange(s.pending(barrierOnly)); len(left) > 0 {
			errs = append(errs, fmt.Errorf("stream %q: the script does not account for these updates%s", name, indent(left)))
		}
	}
	clear(sc.streams)
	return errors.Join(errs...)
}

// invocation is one line of a script.
type invocation struct {
	ts   *testscript.TestScript
	neg  bool
	args []string
}

// commands returns the commands that are added to testscript's own.
func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"await":        command((*scenario).cmdAwait),
		"daemon":       command((*scenario).cmdDaemon),
		"exchange":     command((*scenario).cmdExchange),
		"mksock":       command((*scenario).cmdMksock),
		"pods":         command((*scenario).cmdPods),
		"promptly":     command((*scenario).cmdPromptly),
		"shutdown":     command((*scenario).cmdShutdown),
		"source":       command((*scenario).cmdSource),
		"status":       command((*scenario).cmdStatus),
		"subscribe":    command((*scenario).cmdSubscribe),
		"updates":      command((*scenario).cmdUpdates),
		"write-slowly": command((*scenario).cmdWriteSlowly),
	}
}

// errUsage is returned by a command with wrong arguments.
var errUsage = errors.New("the package comment says how this command is used")

func command(run func(*scenario, *invocation) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		sc, ok := ts.Value(scenarioKey{}).(*scenario)
		if !ok {
			ts.Fatalf("setup gave the script no scenario")
		}
		ts.Check(run(sc, &invocation{ts: ts, neg: neg, args: args}))
	}
}

// errFinal in an error means that waiting longer does not help.
var errFinal = errors.New("waiting does not mend that")

// poll calls try until it returns nil, and fails with its last error.
func poll(try func() error) error {
	ticker := time.NewTicker(pollPeriod)
	defer ticker.Stop()
	deadline := time.After(testutil.Patience)
	for {
		err := try()
		if err == nil || errors.Is(err, errFinal) {
			return err
		}
		select {
		case <-deadline:
			return fmt.Errorf("after %v: %w", testutil.Patience, err)
		case <-ticker.C:
		}
	}
}

// get returns the body of the daemon's answer.
func (sc *scenario) get(path string) ([]byte, error) {
	resp, err := sc.http.Get("http://localhost" + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

var scansMetric = regexp.MustCompile(`(?m)^podconfigd_file_source_scans_total\{source="file"\} (\S+)$`)

// scans returns how often the daemon has listed the manifest path.
func (sc *scenario) scans() (string, error) {
	metrics, err := sc.get("/metrics")
	if err != nil {
		return "", err
	}
	found := scansMetric.FindSubmatch(metrics)
	if found == nil {
		return "", errors.New("/metrics does not count the listings")
	}
	return string(found[1]), nil
}

// source returns the status of the daemon and of its file source.
func (sc *scenario) source() (*v1alpha1.Status, *v1alpha1.SourceStatus, error) {
	status, err := sc.client.Status(sc.tb.Context())
	if err != nil {
		return nil, nil, err
	}
	for i := range status.Sources {
		if s := &status.Sources[i]; s.Name == "file" && s.File != nil {
			return status, s, nil
		}
	}
	return nil, nil, errors.New("the status has no file source")
}

// abs returns the path relative to $WORK as an absolute path.
func (sc *scenario) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(sc.workDir, path)
}
