package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/server/internal/page"

	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

const browserAccept = "text/html,application/xhtml+xml,*/*;q=0.8"

// On the read-only port, browsers get the page at /, and all others what they got before. The protection
// against the pages of others holds for it.
func TestThePageOnTheReadOnlyAddress(t *testing.T) {
	d, address := serveLocal(t, conn.Limits{})
	d.add("a", 1)
	for _, r := range []struct {
		path, accept, header, value string
		code                        int
		want                        string
	}{
		{"/", browserAccept, "", "", 200, "<!doctype html>"},
		{"/page/app.js", "*/*", "Sec-Fetch-Site", "same-origin", 200, "follow(apply, connection"},
		{"/", "*/*", "", "", 404, "there is nothing at /;"},
		{"/", browserAccept, "Sec-Fetch-Site", "cross-site", 403, "requests of web pages are not served"},
		{"/page/app.js", "*/*", "Sec-Fetch-Site", "same-site", 403, "requests of web pages are not served"},
		{"/page/app.js", "*/*", "Origin", "http://evil.example", 403, "requests of web pages are not served"},
		{"/", browserAccept, "Host", "evil.example", 403, "expected localhost"},
	} {
		t.Run(strings.TrimSpace(r.path+" "+r.header+" "+r.value), func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+r.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", r.accept)
			if r.header == "Host" {
				req.Host = r.value
			} else if r.header != "" {
				req.Header.Set(r.header, r.value)
			}
			if code, body := roundTrip(t, http.DefaultClient, req); code != r.code || !strings.Contains(body, r.want) {
				t.Errorf("%+v: %d %.300s", r, code, body)
			}
		})
	}
}

// The page's files have nothing of the node: they are the same for every daemon, so they have no canary,
// whatever a client may see. What has is behind the rules: see TestWaysOutByView.
func TestThePageIsTheSameForAll(t *testing.T) {
	_, address := serveLocal(t, conn.Limits{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", browserAccept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for name, value := range page.Headers {
		if got := resp.Header.Get(name); got != value {
			t.Errorf("%s: %q", name, got)
		}
	}
}
