package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestPictures makes the pictures of the README and of docs/how-to/page.md in the folder PICTURES.
func TestPictures(t *testing.T) {
	folder := os.Getenv("PICTURES")
	if folder == "" {
		t.Skip("PICTURES is not set: make pictures sets it")
	}
	d := newDaemon(t)
	for name := range strings.FieldsSeq("etcd kube-proxy coredns node-exporter fluent-bit checkout payments ledger search gateway") {
		d.write(name+".yaml", pod(name, name+":1.0"))
	}
	p := newTab(t)
	p.do(emulation.SetDeviceMetricsOverride(1280, 860, 1, false))
	p.open(d.url)
	p.until(row("search-node1"))
	for name := range strings.FieldsSeq("checkout payments gateway checkout") {
		d.write(name+".yaml", pod(name, name+":1."+string(mustJSON(len(name)))))
		p.until(has("#updates", name+":1."+string(mustJSON(len(name)))))
		d.write(name+".yaml", pod(name, name+":2.0"))
		p.until(has("#updates", name+":2.0"))
	}
	d.remove("ledger.yaml")
	d.write("search.yaml", strings.Replace(pod("search", "search:1.1"), "8080", `"80a"`, 1))
	p.until(has("#manifests mark", "80a"))
	p.until(`!` + row("ledger-node1"))
	p.eval(`document.querySelector('[data-span="60000"]').click()`, nil)
	picture := func(name string) {
		var image []byte
		p.do(chromedp.CaptureScreenshot(&image))
		if err := os.WriteFile(filepath.Join(folder, name), image, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	picture("page.png")
	p.eval(row("checkout-node1")+`.click()`, nil)
	p.until(has("#history", "checkout:2.0"))
	p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	p.eval(`new Promise(done => setTimeout(done, 2000))`, nil) // the timeline is drawn each second
	picture("page-pod.png")
}
