package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// naive is a client that follows only the README's rules for resuming.
type naive struct {
	Pods     map[string]string // versions by name
	Instance string
	Revision int64
}

func (n *naive) query() string {
	if n.Revision == 0 {
		n.Pods = make(map[string]string)
		return ""
	}
	return fmt.Sprintf("?instance=%s&since=%d", n.Instance, n.Revision)
}

func (n *naive) read(body io.Reader, acted func()) {
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var u struct {
			Instance string
			Op       v1alpha1.Op
			Revision int64
			Reset    bool
			Pods     []v1.Pod
		}
		if err := json.Unmarshal(line, &u); err != nil {
			panic(err)
		}
		if u.Reset {
			clear(n.Pods)
		}
		for i := range u.Pods {
			if u.Op == v1alpha1.OpRemove {
				delete(n.Pods, u.Pods[i].Name)
			} else {
				n.Pods[u.Pods[i].Name] = u.Pods[i].Annotations["version"]
			}
		}
		if u.Revision != 0 {
			n.Instance, n.Revision = u.Instance, u.Revision
		}
		acted()
	}
}

func readNaively(ctx context.Context, t *testing.T, socket string, n naive, last func() int64, synced func()) naive {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(ctx)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1alpha1/updates"+n.query(), nil)
		if err != nil {
			t.Error(err)
		}
		done := false
		if resp, err := transport.RoundTrip(req); err == nil {
			n.read(resp.Body, func() {
				if n.Revision != 0 {
					synced()
				}
				if newest := last(); newest != 0 && n.Revision >= newest {
					done = true
					cancel()
				}
			})
			_ = resp.Body.Close()
		}
		cancel()
		synced() // disconnected
		if done || t.Failed() {
			return n
		}
	}
}

// apply applies an update of pkg/client.
func (n *naive) apply(u *v1alpha1.Update) {
	if u.Reset {
		clear(n.Pods)
	}
	for _, pod := range u.Pods {
		if u.Op == v1alpha1.OpRemove {
			delete(n.Pods, pod.Name)
		} else {
			n.Pods[pod.Name] = pod.Annotations["version"]
		}
	}
	if u.Revision != 0 {
		n.Instance, n.Revision = u.Instance, u.Revision
	}
}

// readWithClient resumes with pkg/client.
func readWithClient(ctx context.Context, t *testing.T, socket string, n naive, last func() int64, synced func()) naive {
	t.Helper()
	_ = n.query() // without a place, it starts with no pods
	opts := client.Options{Instance: n.Instance, Since: n.Revision, OnDisconnect: func(error, time.Duration) { synced() }}
	for u, err := range client.New(socket).Updates(ctx, opts) {
		if err != nil {
			t.Error(err)
			return n
		}
		n.apply(u)
		if n.Revision != 0 {
			synced()
		}
		if newest := last(); newest != 0 && n.Revision >= newest {
			break
		}
	}
	return n
}

// readWithRestarts is a program that ends after each update, and resumes with what it has
// saved.
func readWithRestarts(ctx context.Context, t *testing.T, socket string, n naive, last func() int64, synced func()) naive {
	t.Helper()
	for ctx.Err() == nil {
		_ = n.query()
		opts := client.Options{Instance: n.Instance, Since: n.Revision, Once: true}
		for u, err := range client.New(socket).Updates(ctx, opts) {
			if err != nil {
				synced() // disconnected
				break
			}
			n.apply(u)
			if n.Revision == 0 || u.Revision == 0 {
				continue // ending here each time would make no progress
			}
			synced()
			if newest := last(); newest != 0 && n.Revision >= newest {
				return n
			}
			break
		}
	}
	return n
}
