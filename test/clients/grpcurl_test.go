package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// follower follows the stream with grpcurl. When a grpcurl ends with the daemon, the next one
// resumes.
type follower struct {
	grpcurl  string
	server   []string
	mu       sync.Mutex
	instance string
	revision string
	pods     map[string]string // by UID
	failed   error
}

// grpcurl compares the pods that are on the stream.
func grpcurl(t *testing.T, n *node) view {
	t.Helper()
	server := []string{"-plaintext", n.http}
	if n.durable {
		server = []string{"-cacert", filepath.Join(n.dir, "ca.crt"), "-H", "authorization: Bearer " + token, n.https}
	}
	f := &follower{grpcurl: installed(t, "grpcurl"), server: server, pods: make(map[string]string)}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() {
		for ctx.Err() == nil {
			f.follow(ctx)
		}
	})
	t.Cleanup(func() { cancel(); following.Wait() })
	return view{want: seenPods, got: func(context.Context) (lines []string, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, pod := range f.pods {
			lines = append(lines, pod)
		}
		return lines, f.failed
	}}
}

// follow runs one grpcurl until it ends.
func (f *follower) follow(ctx context.Context) {
	request := "{}"
	if f.instance != "" {
		request = fmt.Sprintf(`{"instance": %q, "since": %q}`, f.instance, f.revision)
	}
	args := append([]string{"-max-msg-sz", "16777216", "-d", request}, f.server...)
	cmd := exec.CommandContext(ctx, f.grpcurl, append(args, "podconfigd.v1alpha1.PodConfig/Watch")...)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		f.apply(&message{}, err)
		return
	}
	defer func() { _ = cmd.Wait() }() // it ended, or was killed
	fresh := f.instance == ""
	for messages := json.NewDecoder(stdout); ; {
		m := &message{Reset: fresh}
		if err := messages.Decode(m); err != nil {
			if err != io.EOF && ctx.Err() == nil && !strings.Contains(err.Error(), "closed") {
				f.apply(m, err)
			}
			return
		}
		fresh = false
		f.apply(m, nil)
	}
}

// message is a WatchResponse, as grpcurl prints it.
type message struct {
	Instance, Revision, Op string
	Reset                  bool
	Pods                   [][]byte
}

// apply does what docs/how-to/write-a-client.md says.
func (f *follower) apply(m *message, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.Reset {
		clear(f.pods)
	}
	for _, data := range m.Pods {
		var p v1.Pod
		if decoding := p.Unmarshal(data); decoding != nil {
			err = decoding
		}
		switch m.Op {
		case "OPERATION_ADD", "OPERATION_UPDATE", "OPERATION_DELETE", "OPERATION_RECONCILE":
			f.pods[string(p.UID)] = see(&p)
		case "OPERATION_REMOVE":
			delete(f.pods, string(p.UID))
		}
	}
	if m.Revision != "" {
		f.instance, f.revision = m.Instance, m.Revision
	}
	if f.failed == nil {
		f.failed = err
	}
}
