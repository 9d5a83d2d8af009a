package browser

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// frames begins to measure frames, until measured is true. longest is then the longest one in milliseconds.
const frames = `(() => {
	window.longest = 0
	window.drawn = 0
	window.measured = false
	let last = performance.now()
	const next = now => {
		window.longest = Math.max(window.longest, now - last)
		window.drawn++
		last = now
		if (!window.measured) requestAnimationFrame(next)
	}
	requestAnimationFrame(now => { last = now; requestAnimationFrame(next) })
})()`

// longestFrame is the longest frame that a page may have, in milliseconds.
const longestFrame = 500

// probe measures the frames of an empty page in a browser of its own: how long the machine lets any page wait.
func probe(t *testing.T) *tab {
	t.Helper()
	p := newTab(t)
	p.do(chromedp.Navigate("about:blank"))
	p.eval(frames, nil)
	return p
}

// frameLimit returns how long the longest frame of a page may be, in milliseconds. If the machine lets an empty
// page wait for more than half of the limit, this wait is added.
func (p *tab) frameLimit() float64 {
	p.t.Helper()
	if wait := p.number(`window.longest`); wait > longestFrame/2 {
		return longestFrame + wait
	}
	return longestFrame
}

// metric returns a figure that the browser has of the page.
func (p *tab) metric(name string) (value float64) {
	p.t.Helper()
	p.do(performance.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		metrics, err := performance.GetMetrics().Do(ctx)
		for _, m := range metrics {
			if m.Name == name {
				value = m.Value
			}
		}
		return err
	}))
	return value
}

// heap returns the bytes of live objects of the page.
func (p *tab) heap() (used float64) {
	p.t.Helper()
	p.do(heapprofiler.CollectGarbage())
	return p.metric("JSHeapUsedSize")
}

// busy returns the seconds of CPU time that the main thread of the page used.
func (p *tab) busy() float64 {
	p.t.Helper()
	return p.metric("ThreadTime")
}

// 5,000 pods scroll smoothly: only the rows in sight are elements.
func TestManyPods(t *testing.T) {
	const pods = 5000
	d := prepare(t)
	for i := range pods {
		d.write(fmt.Sprintf("p%04d.yaml", i), pod(fmt.Sprintf("p%04d", i), "i"))
	}
	d.url = "http://127.0.0.1:" + freePort(t)
	d.args = append(d.args, "--listen", d.url)
	d.start()
	p := newTab(t)
	begin := time.Now()
	p.open(d.url)
	p.until(has("#pod-count", "5,000"))
	loaded := time.Since(begin)
	empty := probe(t)
	p.eval(frames, nil)
	p.eval(`(async () => {
		const box = document.querySelector('#pods')
		for (let i = 0; i < 120; i++) {
			box.scrollTop += box.scrollHeight / 120
			await new Promise(requestAnimationFrame)
		}
	})()`, nil)
	p.until(row("p4999-node1"))
	longest, rows := p.number(`window.longest`), p.number(`document.querySelectorAll('#pods .rows .row').length`)
	t.Logf("%d pods: shown after %v, longest frame while scrolling %.0f ms, %v rows, heap %.0f MB", pods, loaded.Round(time.Millisecond), longest, rows, p.heap()/1e6)
	if limit := empty.frameLimit(); rows > 100 || longest > limit {
		t.Errorf("%v rows, the longest frame took %v ms, the limit is %v ms", rows, longest, limit)
	}
	p.eval(`(() => { const f = document.querySelector('#filter'); f.value = 'p123'; f.dispatchEvent(new Event('input')) })()`, nil)
	p.until(has("#pod-count", "10 of 5,000"))
}

// 200 updates a second for a minute neither freeze the page nor grow its memory, and leave its main thread idle for
// most of the time. An edited static pod is a REMOVE and an ADD.
func TestPressed(t *testing.T) {
	const pods, writes = 500, 6000
	d := newDaemon(t)
	for i := range pods {
		d.write(fmt.Sprintf("p%03d.yaml", i), pod(fmt.Sprintf("p%03d", i), "i:0"))
	}
	empty := probe(t)
	p := newTab(t)
	p.open(d.url)
	p.until(has("#pod-count", "500"))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	written := 0
	third := func() {
		for range writes / 3 {
			<-tick.C
			written++
			d.write(fmt.Sprintf("p%03d.yaml", written%pods), pod(fmt.Sprintf("p%03d", written%pods), fmt.Sprintf("i:%d", written)))
		}
	}
	third()
	early := p.heap()
	p.eval(frames, nil)
	third()
	p.eval(`window.measured = true`, nil) // measuring frames makes the main thread busy
	begin, used := time.Now(), p.busy()
	third()
	busy := (p.busy() - used) / time.Since(begin).Seconds()
	p.until(has("#updates", fmt.Sprintf("i:%d", writes)))
	longest, limit, late := p.number(`window.longest`), empty.frameLimit(), p.heap()
	t.Logf("%d writes: longest frame %.0f ms of %.0f frames, %.0f ms in an empty page; main thread busy for %.1f %%; heap %.1f MB after 20 s, %.1f MB at the end",
		writes, longest, p.number(`window.drawn`), empty.number(`window.longest`), 100*busy, early/1e6, late/1e6)
	if longest > limit {
		t.Errorf("the longest frame took %v ms, the limit is %v ms", longest, limit)
	}
	if busy > 0.2 {
		t.Errorf("the main thread is busy for %.1f %% of the time", 100*busy)
	}
	if late > early+16e6 {
		t.Errorf("the page grew from %v to %v bytes", early, late)
	}
}
