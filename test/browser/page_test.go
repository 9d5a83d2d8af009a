package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// What happens on the node is on the page without a reload, also across a kill of the daemon.
func TestLive(t *testing.T) {
	d := newDaemon(t)
	d.write("web.yaml", pod("web", "nginx:1"))
	p := newTab(t)
	p.open(d.url)
	p.until(row("web-node1"))
	p.until(has("#health", "healthy"))
	p.eval(`window.sameDocument = true`, nil)

	d.write("api.yaml", pod("api", "api:1"))
	p.until(row("api-node1"))
	p.until(has("#updates", "default/api-node1"))
	d.write("web.yaml", pod("web", "nginx:2"))
	p.until(has("#updates", "spec.containers[main].image: nginx:1 → nginx:2"))

	d.write("web.yaml", strings.Replace(pod("web", "nginx:2"), "8080", `"x80"`, 1))
	p.until(has("#manifests", "Held"))
	p.until(has("#manifests mark", `▶   10 │     - containerPort: "x80"`))
	p.until(has("#manifests .fix", "web.yaml:10"))
	p.until(has("#problems", "1 manifest Held"))
	p.until(row("web-node1"))
	d.write("web.yaml", pod("web", "nginx:2"))
	p.until(`document.querySelector('#manifests').childElementCount === 0`)
	p.until(has("#health", "healthy"))
	d.remove("api.yaml")
	p.until(`!` + row("api-node1"))

	p.until(`document.querySelectorAll('#pods .rows .row:not([hidden])').length === 1`)
	d.kill()
	p.until(has("#live", "not connected"))
	d.write("later.yaml", pod("later", "i"))
	d.start()
	p.until(has("#live", "● live"))
	p.until(row("later-node1"))
	p.until(row("web-node1"))
	p.until(has("#timeline-sum", "1 gap"))
	p.until(has("#timeline-sum", "2 starts of podconfigd"))
	p.until(`window.sameDocument === true`)

	p.do(chromedp.Navigate(d.url + "/"))
	p.until(has("#updates", "default/later-node1"))                                      // of the history, newest first
	p.until(`document.querySelectorAll('#updates .rows .row:not([hidden])').length > 4`) // an edit is one
}

// An edit of a static pod is one line of the updates, also in the history that a new page reads.
func TestAnEditIsOneUpdate(t *testing.T) {
	d := newDaemon(t)
	d.write("web.yaml", pod("web", "nginx:1"))
	p := newTab(t)
	p.open(d.url)
	p.until(row("web-node1"))
	d.write("web.yaml", pod("web", "nginx:2"))
	p.until(has("#updates", "nginx:1 → nginx:2"))
	p.until(`!document.querySelector('#updates').textContent.includes('REMOVE')`)
	p.do(chromedp.Navigate(d.url + "/"))
	p.until(has("#updates", "nginx:1 → nginx:2"))
	p.until(`!document.querySelector('#updates').textContent.includes('REMOVE')`)
	p.until(has("#timeline-sum", "REMOVE 1"))
	p.until(has("#timeline-sum", "1 start of podconfigd"))
}

// With --owners, the pods are below the top of their owners, and filter by it.
func TestPodsBelowTheirOwners(t *testing.T) {
	of := func(name string, owners ...map[string]any) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": name, "namespace": "shop", "uid": name, "resourceVersion": "5", "ownerReferences": owners},
			"spec":     map[string]any{"nodeName": "node1", "containers": []map[string]any{{"name": "c", "image": "i"}}},
		}
	}
	db := map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true}
	d := newDaemon(t, "--kubeconfig", apiserver(t, []map[string]any{of("db-1", db), of("alone"), of("db-0", db)}), "--owners")
	d.write("web.yaml", pod("web", "nginx:1"))
	p := newTab(t)
	p.open(d.url)
	names := func(want string) {
		p.until(`[...document.querySelectorAll('#pods .rows .row:not([hidden]) .c-name')].map(c => c.textContent).join() === "` + want + `"`)
	}
	names("no owner,alone,node/node1,web-node1,statefulset/db,db-0,db-1")
	p.until(`!document.querySelector('#pods').textContent.includes('undefined')`)
	p.until(has("#pod-count", "4"))
	p.eval(`(() => { const f = document.querySelector('#filter'); f.value = 'statefulset/db'; f.dispatchEvent(new Event('input')) })()`, nil)
	names("statefulset/db,db-0,db-1")
	p.until(has("#pod-count", "2 of 4"))
	p.until(row("2 pods"))
	p.eval(row("2 pods")+`.click()`, nil)
	p.until(`!document.querySelector('#detail').open`)
}

// A restart of a container is marked in the table of the pods, in the timeline and in the updates.
func TestContainerRestarts(t *testing.T) {
	d := newDaemon(t)
	p := newTab(t)
	p.open(d.url)
	p.eval(`(async () => {
		const pods = await import('/page/pods.js'), timeline = await import('/page/timeline.js')
		const pod = restartCount => ({
			metadata: { namespace: 'default', name: 'web-node1' }, spec: { containers: [{ name: 'c' }] },
			status: { phase: 'Running', containerStatuses: [{ name: 'c', ready: true, restartCount, state: { running: {} },
				lastState: restartCount ? { terminated: { finishedAt: new Date(Date.now() - 200e3).toISOString() } } : {} }] },
		})
		pods.apply({ op: 'ADD', source: 'file' }, pod(0))
		const [row, changes] = pods.apply({ op: 'RECONCILE', source: 'file' }, pod(3))
		timeline.add({ time: Date.now(), op: 'RECONCILE', source: 'file', namespace: row.namespace, name: row.name, pod: row.key, changes })
		pods.draw()
		timeline.draw()
	})()`, nil)
	p.until(has("#pods .c-restarts.is-wait", "3 (3m ago)"))
	p.until(has("#timeline-sum", "RESTART 1"))
	p.until(has("#updates .op-RESTART", "↻ RESTART"))
}

// With a few pods beside long verdicts, no half of the page stays empty.
func TestNoEmptyHalf(t *testing.T) {
	d := newDaemon(t)
	d.write("web.yaml", pod("web", "i"))
	for _, name := range []string{"a", "b", "c"} {
		d.write(name+".yaml", strings.Replace(pod(name, "i"), "8080", `"x"`, 1))
	}
	p := newTab(t)
	p.open(d.url)
	p.until(row("web-node1"))
	p.until(`document.querySelectorAll('#manifests mark').length === 3`)
	empty := p.number(`(() => {
		const bottom = e => e.getBoundingClientRect().bottom
		return Math.min(innerHeight, bottom(document.querySelector('#side'))) - bottom(document.querySelector('#feed'))
	})()`)
	if empty > 20 {
		t.Errorf("%v pixels below the updates are empty", empty)
	}
	p.until(`document.querySelector('#updates').clientHeight > 200`)
}

// hostile is a text with markup, control characters and characters that change the direction.
const hostile = `<img src=x onerror=document.title=1><script>window.pwned=1</script>\u0001\u001b[31m\u202Eevil\u2066\u0000`

// Texts from others are shown as text.
func TestHostile(t *testing.T) {
	d := newDaemon(t)
	quoted := strings.ReplaceAll(hostile, `"`, `\"`)
	d.write("good.yaml", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"good","annotations":{"a":"`+quoted+`"}},"spec":{"containers":[
		{"name":"main","image":"i","command":["`+quoted+`"],"env":[{"name":"A","value":"`+quoted+`"}]}]}}`)
	d.write("<img src=x onerror=window.pwned=2>\u202E\x01.yaml", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+quoted+`"},
"spec":{"containers":[{"name":"`+quoted+`","image":"`+quoted+`","ports":[{"containerPort":"`+quoted+`"}]}]}}`)
	d.write("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: <b>x</b>\n  namespace: <script>window.pwned=3</script>\nspec: []\n")
	p := newTab(t)
	p.open(d.url)
	p.until(row("good-node1"))
	p.until(`document.querySelectorAll('#manifests li').length === 2`)
	p.until(has("#manifests", `\u202e`))
	p.eval(row("good-node1")+`.click()`, nil)
	p.openParts()
	p.until(has("#containers", `\u202e`))
	p.until(has("#yaml pre", "onerror"))
	p.until(`document.querySelectorAll('img').length === 1 && document.querySelectorAll('script').length === 1`)
	p.eval(`document.querySelector('#detail').close()`, nil)
	d.write("good.yaml", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"good","annotations":{"a":"b"}},"spec":{"containers":[{"name":"main","image":"i"}]}}`)
	p.until(has("#updates .rows .row", "onerror")) // the newest one
	p.eval(`document.querySelector('#updates .rows .row').click()`, nil)
	p.until(has("#update", "onerror"))
	p.until(`document.querySelectorAll('img').length === 1 && window.pwned === undefined`)
	raw := p.number(`[...document.body.innerText.matchAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g)].length`)
	if raw != 0 {
		t.Errorf("the page shows %v control characters", raw)
	}
	p.clean()
}

const secret = "CANARY-4711"

// A client sees on the page what its access rules show, and not the lines of manifests with less.
func TestAccess(t *testing.T) {
	for _, view := range []string{"full", "redacted", "metadata"} {
		d := prepare(t)
		config := filepath.Join(d.dir, "config.yaml")
		rules := "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\naccess:\n- view: " + view + "\n"
		if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		d.url = "http://127.0.0.1:" + freePort(t)
		d.args = append(d.args, "--config", config, "--listen", d.url)
		d.start()
		manifest := pod("web", "i") + "    env:\n    - name: A\n      value: " + secret + "\n"
		d.write("web.yaml", manifest)
		p := newTab(t)
		p.open(d.url)
		p.until(row("web-node1"))
		d.write("web.yaml", strings.Replace(manifest, "8080", "x", 1))
		p.until(has("#manifests", "Held"))
		seen := p.text(`document.documentElement.textContent`)
		p.eval(row("web-node1")+`.click()`, nil)
		p.openParts()
		p.until(has("#yaml", "uid:"))
		seen += p.text(`document.documentElement.textContent`)
		if shown := strings.Contains(seen, secret); shown != (view == "full") {
			t.Errorf("%s: the value is shown: %v", view, shown)
		}
		if lines := strings.Contains(seen, "▶"); lines != (view == "full") {
			t.Errorf("%s: the lines around the fault are shown: %v", view, lines)
		}
		if path := strings.Contains(seen, d.manifests); path == (view == "metadata") {
			t.Errorf("%s: the path is shown: %v", view, path)
		}
	}
}

// On an https address, the page asks for a token, and keeps it in memory only.
func TestToken(t *testing.T) {
	d := prepare(t)
	tokens := filepath.Join(d.dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte("s3cret,reader,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.url = "https://127.0.0.1:" + freePort(t)
	d.args = append(d.args, "--listen", d.url, "--token-auth-file", tokens, "--authorization-mode", "AlwaysAllow")
	d.start()
	d.write("web.yaml", pod("web", "i"))
	p := newTab(t, chromedp.Flag("ignore-certificate-errors", true))
	p.do(chromedp.Navigate(d.url + "/"))
	p.until(`!document.querySelector('#sign-in').hidden && document.querySelector('#main').hidden`)
	p.until(has("#sign-in", "podconfigctl proxy"))
	p.axe("the form")
	p.do(chromedp.SendKeys("#token", "wrong"+kb.Enter, chromedp.ByID))
	p.until(`document.querySelector('#token').value === '' && !document.querySelector('#sign-in').hidden`)
	p.do(chromedp.SendKeys("#token", "s3cret"+kb.Enter, chromedp.ByID))
	p.until(row("web-node1"))
	p.until(`document.querySelector('#sign-in').hidden`)
	p.until(`localStorage.length + sessionStorage.length === 0 && document.cookie === '' && !location.href.includes('s3cret')`)
	p.do(chromedp.Reload())
	p.until(`!document.querySelector('#sign-in').hidden`)
}

// podconfigctl proxy serves the page of the daemon, with its headers.
func TestProxy(t *testing.T) {
	d := newDaemon(t)
	d.write("web.yaml", pod("web", "i"))
	port := freePort(t)
	proxy := run(t, os.Getenv("PODCONFIGCTL"), "Starting to serve", "proxy", "--socket", filepath.Join(d.dir, "socket"), "--port", port)
	t.Cleanup(func() { stop(proxy) })
	p := newTab(t)
	p.open("http://127.0.0.1:" + port)
	p.until(row("web-node1"))
	if policy := p.text(`fetch('/page/app.js').then(r => r.headers.get('Content-Security-Policy'))`); !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("the policy is %q", policy)
	}
}

// A narrow window, as on a telephone, shows everything without scrolling sideways.
func TestNarrow(t *testing.T) {
	d := newDaemon(t)
	d.write("web.yaml", pod("a-name-that-is-rather-long-for-a-telephone-"+strings.Repeat("x", 100), "i"))
	d.write("a-fault-in-a-file.yaml", strings.Replace(pod("a-pod-with-a-name-that-is-rather-long", "i"), "8080", `"x"`, 1))
	p := newTab(t)
	p.do(emulation.SetDeviceMetricsOverride(360, 740, 2, true))
	p.open(d.url)
	p.until(row("a-name-that"))
	p.until(has("#manifests mark", "containerPort"))
	if width := p.number(`document.documentElement.scrollWidth`); width > 360 {
		t.Errorf("the page is %v pixels wide", width)
	}
	cut := p.text(`[...document.querySelectorAll('#manifests .id, #pods .head > div')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent).join()`)
	if cut != "" {
		t.Errorf("cut: %s", cut)
	}
	p.do(chromedp.Click("#problems a", chromedp.ByQuery))
	p.until(`document.querySelector('#manifests-title').getBoundingClientRect().bottom < innerHeight`)
	p.axe("narrow")
	p.eval(row("a-name-that")+`.click()`, nil)
	p.until(`document.querySelector('#detail').open`)
	if width := p.number(`document.querySelector('#detail').getBoundingClientRect().width`); width > 360 {
		t.Errorf("the pod is %v pixels wide", width)
	}
	p.axe("narrow, with a pod")
}

// Everything can be done with the keyboard.
func TestKeyboard(t *testing.T) {
	d := newDaemon(t)
	for _, name := range []string{"a", "b", "c"} {
		d.write(name+".yaml", pod(name, "i"))
	}
	p := newTab(t)
	p.open(d.url)
	p.until(row("c-node1"))
	p.key("/")
	p.until(`document.activeElement.id === 'filter'`)
	p.eval(`document.activeElement.value = ''`, nil) // the protocol sends the character although the page took the key
	p.key("b", "-")
	p.until(`!` + row("a-node1") + ` && ` + row("b-node1"))
	p.key(kb.Backspace, kb.Backspace)
	p.until(row("a-node1"))
	p.key(kb.Tab)
	p.until(`document.activeElement.id === 'pods'`)
	p.key(kb.ArrowDown, kb.ArrowDown)
	p.until(`document.getElementById(document.querySelector('#pods').getAttribute('aria-activedescendant')).textContent.includes('b-node1')`)
	p.key(kb.End, kb.Enter)
	p.until(`document.querySelector('#detail').open && document.querySelector('#detail').contains(document.activeElement)`)
	p.until(has("#detail-title", "c-node1"))
	p.until(`!document.querySelector('#yaml').open`)
	for range 5 { // the parts of the pod, and what scrolls
		p.key(kb.Tab)
		if p.text(`document.activeElement.parentElement.id`) == "yaml" {
			break
		}
	}
	p.until(`document.activeElement.parentElement.id === 'yaml'`)
	p.key(kb.Enter)
	p.until(has("#yaml pre", "c-node1"))
	p.key(kb.Escape)
	p.until(`!document.querySelector('#detail').open && document.activeElement.id === 'pods'`)
	p.eval(`document.querySelector('#timeline').focus()`, nil)
	before := p.text(`document.querySelector('#timeline-sum').textContent`)
	p.key("+")
	p.until(`document.querySelector('#timeline-sum').textContent.slice(0, 8) !== ` + string(mustJSON(before[:8])))
}

// The page breaks no rule of axe-core, light or dark, with and without a pod.
func TestAxe(t *testing.T) {
	d := newDaemon(t)
	d.write("web.yaml", pod("web", "i"))
	d.write("bad.yaml", strings.Replace(pod("bad", "i"), "8080", `"x"`, 1))
	for _, scheme := range []string{"light", "dark"} {
		p := newTab(t)
		p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
		p.open(d.url)
		p.until(row("web-node1"))
		p.until(has("#manifests mark", "containerPort"))
		p.axe(scheme)
		p.eval(row("web-node1")+`.click()`, nil)
		p.openParts()
		p.until(has("#yaml", "uid:"))
		p.axe(scheme + ", with a pod")
	}
}
