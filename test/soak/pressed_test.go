package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

var (
	pods  = flag.Int("pods", 200, "number of pods of TestPressed, a multiple of 100")
	press = flag.Duration("press", 3*time.Second, "how long TestPressed updates its pods")
)

// ahead is how many updates may be on their way. No pod has two of them.
const ahead = 100

// TestPressed updates many pods as fast as the daemon and a subscriber take it. Each update
// comes once, also to a subscriber whose connections break, and what the daemon uses stays
// the same. After a kill, the last version of each pod is there.
func TestPressed(t *testing.T) {
	p := newPressed(t)
	state := stateDir(t)
	p.daemon = newDaemon(t, p.dir, "--state-dir", state, "--file-check-frequency", "1h")
	p.daemon.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer func() { cancel(); wg.Wait() }()
	follow := func(name string, most int) *follower {
		f := newFollower(t, name, p.daemon.socket, most, len(p.versions))
		wg.Go(func() { f.follow(ctx) })
		p.await(f)
		return f
	}
	all := []*follower{follow("whole", 0), follow("cut", 1<<20)}
	judge := func(when string, updates int) {
		t.Helper()
		for _, f := range all {
			p.await(f)
			if got, wrong := f.result(); got != updates || wrong != nil {
				t.Errorf("%s, %s: %d of %d updates, %v", when, f.name, got, updates, wrong)
			}
		}
	}
	stalled := p.stall(ctx)
	defer stalled.Body.Close()

	used := &usage{t: t, daemon: p.daemon, state: state}
	updates, begun := 0, time.Now()
	for next := begun; time.Since(begun) < *press || !used.enough(); {
		for n := range ahead {
			p.write(p.random.IntN(len(p.versions)/ahead)*ahead + n)
			updates++
		}
		p.await(all[0])
		if time.Now().After(next) {
			used.sample()
			next = next.Add(*press / 60)
		}
	}
	took := time.Since(begun)
	judge("pressed", updates)
	used.judge()
	t.Logf("%d pods, %d updates in %v, %.0f/s; the subscriber that is cut has connected %d times",
		len(p.versions), updates, took.Round(time.Second), float64(updates)/took.Seconds(), all[1].connected())

	p.daemon.kill()
	p.daemon.start(t)
	follow("after the kill", 0)
	p.write(0)
	judge("after a kill", updates+1)
}

func newPressed(t *testing.T) *pressed {
	t.Helper()
	p := &pressed{t: t, dir: testutil.ShortDir(t), versions: make([]int, *pods), random: rand.New(rand.NewPCG(*seed, 2))}
	if err := os.Mkdir(filepath.Join(p.dir, "manifests"), 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range p.versions {
		p.write(n)
	}
	return p
}

// pressed updates pods.
type pressed struct {
	t      *testing.T
	dir    string
	random *rand.Rand
	daemon *daemon
	// versions are the versions of the pods, by their number. total is their sum.
	versions []int
	total    int
}

// write writes the next version of a pod.
func (p *pressed) write(n int) {
	p.versions[n]++
	p.total++
	name := fmt.Sprint("pod-", n)
	content := manifest{name: name, uid: name, version: fmt.Sprint(p.versions[n]), namespace: "default", tier: tiers[0]}.json()
	temp := filepath.Join(p.dir, "temp")
	err := os.WriteFile(temp, []byte(content), 0o600)
	if err := errors.Join(err, os.Rename(temp, filepath.Join(p.dir, "manifests", name+".json"))); err != nil {
		p.t.Fatal(err)
	}
}

// await waits until a follower has the last version of each pod.
func (p *pressed) await(f *follower) {
	p.t.Helper()
	late := time.NewTimer(*patience)
	defer late.Stop()
	for f.total() < p.total {
		select {
		case <-f.changed:
		case <-late.C:
			p.t.Fatalf("%s: not in time: the sum of its versions is %d, not %d", f.name, f.total(), p.total)
		}
	}
}

// stall begins a stream that is never read.
func (p *pressed) stall(ctx context.Context) *http.Response {
	c := &cutter{socket: p.daemon.socket}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1alpha1/updates", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := (&http.Transport{DialContext: c.dial}).RoundTrip(request)
	if err != nil {
		p.t.Fatal(err)
	}
	return response
}
