package browser

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a page may take to show what a test waits for.
const patience = 30 * time.Second

// tab is a page in a browser of its own.
type tab struct {
	t   *testing.T
	ctx context.Context
	// faults are the errors that the page reported.
	faults []string
}

func newTab(t *testing.T, options ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	options = append(append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profile(t)), chromedp.WindowSize(1440, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	), options...)
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); cancel() })
	p := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			p.faults = append(p.faults, event.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if event.Type == runtime.APITypeError {
				p.faults = append(p.faults, string(event.Args[0].Value))
			}
		}
	})
	return p
}

// profile returns a folder for a browser's files. It is removed when the browser's processes write no more: they end
// later than the browser.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
			if err := os.RemoveAll(dir); err == nil {
				return
			} else if time.Now().After(end) {
				t.Error(err)
				return
			}
		}
	})
	return dir
}

// open opens an address, and waits until the page is live.
func (p *tab) open(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url + "/"))
	p.until(`document.querySelector('#live').textContent === '● live'`)
}

func (p *tab) do(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 2*patience)
	defer cancel()
	if err := chromedp.Run(p.ctx); err != nil { // starts the browser, whose life is not that of ctx
		p.t.Fatal(err)
	}
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// until waits until an expression is true in the page.
func (p *tab) until(expression string) {
	p.t.Helper()
	script := `(async () => {
		for (const end = performance.now() + ` + string(mustJSON(patience.Milliseconds())) + `; performance.now() < end;) {
			if (` + expression + `) return ''
			await new Promise(done => setTimeout(done, 20))
		}
		return document.body.innerText
	})()`
	if text := p.text(script); text != "" {
		p.t.Fatalf("not within %v: %s\nthe page has:\n%s", patience, expression, text)
	}
}

// eval evaluates an expression, which can be a promise.
func (p *tab) eval(expression string, result any) {
	p.t.Helper()
	p.do(chromedp.Evaluate(expression, result, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
}

func (p *tab) text(expression string) (text string) {
	p.t.Helper()
	p.eval(expression, &text)
	return text
}

func (p *tab) number(expression string) (n float64) {
	p.t.Helper()
	p.eval(expression, &n)
	return n
}

func mustJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// has is an expression: whether the text of an element has a text.
func has(selector, text string) string {
	return `document.querySelector(` + string(mustJSON(selector)) + `)?.textContent.includes(` + string(mustJSON(text)) + `)`
}

// row is the row in sight with a text.
func row(text string) string {
	return `[...document.querySelectorAll('#pods .rows .row:not([hidden])')].find(r => r.textContent.includes(` + string(mustJSON(text)) + `))`
}

// openParts opens all parts of the pod that is open.
func (p *tab) openParts() {
	p.t.Helper()
	p.eval(`for (const part of document.querySelectorAll('#pod details')) part.open = true`, nil)
	p.until(`[...document.querySelectorAll('#pod details > div')].every(part => part.textContent !== '')`)
}

// key presses a key in the element that has the focus.
func (p *tab) key(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// clean reports errors that the page had.
func (p *tab) clean() {
	p.t.Helper()
	for _, fault := range p.faults {
		p.t.Errorf("the page reports: %s", fault)
	}
}

// axe reports the rules of axe-core that the page breaks.
func (p *tab) axe(where string) {
	p.t.Helper()
	script, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		p.t.Fatalf("reading AXE: %v", err)
	}
	p.eval(string(script)+"; ''", nil)
	found := p.text(`axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v =>
		v.id + ': ' + v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + n.failureSummary).join('; ')).join('\n'))`)
	if strings.TrimSpace(found) != "" {
		p.t.Errorf("%s: %s", where, found)
	}
}
