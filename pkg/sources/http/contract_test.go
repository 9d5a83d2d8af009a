package http

import (
	"io"
	"maps"
	nethttp "net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/sourcetest"
)

// place is a server.
type place struct {
	url string

	mu     sync.Mutex
	images map[string]string
	broken bool
}

func TestContract(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for sources")
	}
	sourcetest.Run(t, func(t *testing.T) sourcetest.Place {
		t.Helper()
		p := &place{images: make(map[string]string)}
		s := newSite(t, false)
		s.set(p.serve)
		p.url = s.URL
		return p
	})
}

func (p *place) serve(w nethttp.ResponseWriter, _ *nethttp.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		w.WriteHeader(nethttp.StatusServiceUnavailable)
		return
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(p.images)) {
		items = append(items, item(name, p.images[name]))
	}
	_, _ = io.WriteString(w, list(items...))
}

func (p *place) change(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
}

func (p *place) Source(restored sources.Restored) sources.Source {
	source, err := New(Options{URL: p.url, Decoder: manifest.NewDecoder("node"), Period: 10 * time.Millisecond, Restored: restored})
	if err != nil {
		panic(err) // the URL is that of a test server
	}
	return source
}

func (p *place) Put(_ *testing.T, name, image string) { p.change(func() { p.images[name] = image }) }
func (p *place) Remove(_ *testing.T, name string)     { p.change(func() { delete(p.images, name) }) }
func (p *place) Break(*testing.T)                     { p.change(func() { p.broken = true }) }
func (p *place) Mend(*testing.T)                      { p.change(func() { p.broken = false }) }
