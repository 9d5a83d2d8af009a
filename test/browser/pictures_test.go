package browser

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestPictures makes the pictures of the README and of docs/how-to/page.md in the folder PICTURES: a minute on
// a node with two sources, in which pods are changed, removed and added, and the daemon is killed.
func TestPictures(t *testing.T) {
	folder := os.Getenv("PICTURES")
	if folder == "" {
		t.Skip("PICTURES is not set: make pictures sets it")
	}
	d := prepare(t)
	d.url = "http://127.0.0.1:" + freePort(t)
	d.args[1] = mount(t, d.dir) + "/manifests" // --pod-manifest-path
	d.args = append(d.args, "--listen", d.url,
		"--manifest-url", serve(t, "fluent-bit", "node-exporter"), "--http-check-frequency", "1s")
	d.start()
	for name := range strings.FieldsSeq("etcd kube-proxy coredns checkout payments ledger search gateway") {
		d.write(name+".yaml", pod(name, name+":1.0"))
	}
	p := newTab(t)
	pause := func(length time.Duration) {
		p.eval(fmt.Sprintf(`new Promise(done => setTimeout(done, %d))`, length.Milliseconds()), nil)
	}
	p.do(emulation.SetDeviceMetricsOverride(1280, 940, 1, false))
	p.open(d.url)
	p.until(row("search-node1"))
	p.until(row("node-exporter-node1"))
	batch := strings.Fields("index-a index-b index-c index-d index-e index-f")
	for name := range strings.FieldsSeq("checkout payments gateway") {
		d.write(name+".yaml", pod(name, name+":1.1"))
		p.until(has("#updates", name+":1.1"))
		pause(2 * time.Second)
	}
	for _, name := range batch {
		d.write(name+".yaml", pod(name, "index:7"))
	}
	p.until(row("index-f-node1"))
	pause(9 * time.Second)
	d.kill()
	pause(5 * time.Second)
	d.start()
	p.until(has("#live", "● live"))
	pause(8 * time.Second)
	for _, name := range batch {
		d.remove(name + ".yaml")
	}
	p.until(`!` + row("index-f-node1"))
	pause(8 * time.Second)
	for _, version := range []string{"1.2", "1.3", "2.0"} {
		d.write("checkout.yaml", pod("checkout", "checkout:"+version))
		p.until(has("#updates", "checkout:"+version))
		pause(2 * time.Second)
	}
	d.remove("ledger.yaml")
	d.write("search.yaml", strings.Replace(pod("search", "search:1.1"), "8080", `"80a"`, 1))
	p.until(has("#manifests mark", "80a"))
	p.until(`!` + row("ledger-node1"))
	pause(4 * time.Second)
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
	pause(2 * time.Second) // the timeline is drawn each second
	picture("page-pod.png")
}

// mount makes the daemon find a folder at a path that is short enough for a picture, which it returns. No other process
// finds it there.
func mount(t *testing.T, dir string) string {
	t.Helper()
	const path = "/srv"
	script := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -c 'mount --bind %s %s && exec \"$0\" \"$@\"' %s \"$@\"\n", dir, path, os.Getenv("PODCONFIGD"))
	program := filepath.Join(t.TempDir(), "podconfigd")
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PODCONFIGD", program)
	return path
}

// serve serves the manifests of pods, and returns the URL.
func serve(t *testing.T, names ...string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:8000") // the picture shows it
	if err != nil {
		t.Fatal(err)
	}
	var items strings.Builder
	items.WriteString("apiVersion: v1\nkind: PodList\nitems:\n")
	for _, name := range names {
		fmt.Fprintf(&items, "- metadata: {name: %[1]s, namespace: fleet}\n  spec: {containers: [{name: main, image: %[1]s:1.0}]}\n", name)
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, items.String())
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String() + "/fleet.yaml"
}
