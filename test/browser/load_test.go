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

// frames begins to measure frames. longest is then the longest one in milliseconds.
const frames = `(() => {
	window.longest = 0
	window.drawn = 0
	let last = performance.now()
	const next = now => { window.longest = Math.max(window.longest, now - last); window.drawn++; last = now; requestAnimationFrame(next) }
	requestAnimationFrame(now => { last = now; requestAnimationFrame(next) })
})()`

// heap returns the bytes of live objects of the page.
func (p *tab) heap() (used float64) {
	p.t.Helper()
	p.do(performance.Enable(), heapprofiler.CollectGarbage(), chromedp.ActionFunc(func(ctx context.Context) error {
		metrics, err := performance.GetMetrics().Do(ctx)
		for _, m := range metrics {
			if m.Name == "JSHeapUsedSize" {
				used = m.Value
			}
		}
		return err
	}))
	return used
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
	p.eval(frames, nil)
	p.eval(`(async () => {
		const box = document.querySelector('#pods')
		for (let i = 0; i < 120; i++) {
			box.scrollTop += box.scrollHeight / 120
			await new Promise(requestAnimationFrame)
		}
	})()`, nil)
	p.until(row("p4999-node1"))
	longest, rows := p.number(`window.longest`), p.number(`document.querySelectorAll('#pod-rows .row').length`)
	t.Logf("%d pods: shown after %v, longest frame while scrolling %.0f ms, %v rows, heap %.0f MB", pods, loaded.Round(time.Millisecond), longest, rows, p.heap()/1e6)
	if rows > 100 || longest > 250 {
		t.Errorf("%v rows, the longest frame took %v ms", rows, longest)
	}
	p.eval(frames, nil)
	p.eval(`(() => { const f = document.querySelector('#filter'); f.value = 'p123'; f.dispatchEvent(new Event('input')) })()`, nil)
	p.until(has("#pod-count", "10 of 5,000"))
}

// 200 updates a second for a minute neither freeze the page nor grow its memory. An edited static pod is
// a REMOVE and an ADD.
func TestPressed(t *testing.T) {
	const pods, seconds = 500, 60
	d := newDaemon(t)
	for i := range pods {
		d.write(fmt.Sprintf("p%03d.yaml", i), pod(fmt.Sprintf("p%03d", i), "i:0"))
	}
	p := newTab(t)
	p.open(d.url)
	p.until(has("#pod-count", "500"))
	p.eval(frames, nil)
	var early float64
	first := p.text(`document.querySelector('#facts dd').textContent`)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range 100 * seconds {
		<-tick.C
		d.write(fmt.Sprintf("p%03d.yaml", i%pods), pod(fmt.Sprintf("p%03d", i%pods), fmt.Sprintf("i:%d", i+1)))
		if i == 100*seconds/3 {
			p.eval(`window.before = window.longest`, nil)
			early = p.heap() // stops the page for its garbage collection, which is no frame of its own
			p.eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => { window.longest = window.before; done() })))`, nil)
		}
	}
	p.until(has("#updates", fmt.Sprintf("i:%d", 100*seconds)))
	late := p.heap()
	longest, drawn := p.number(`window.longest`), p.number(`window.drawn`)
	t.Logf("%d writes, revisions %s to %s: longest frame %.0f ms of %.0f frames, heap %.1f MB after 20 s, %.1f MB at the end",
		100*seconds, first, p.text(`document.querySelector('#facts dd').textContent`), longest, drawn, early/1e6, late/1e6)
	if longest > 500 {
		t.Errorf("the longest frame took %v ms", longest)
	}
	if late > early+16e6 {
		t.Errorf("the page grew from %v to %v bytes", early, late)
	}
}
