package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// contents returns the files of the page.
func contents(t *testing.T) map[string]string {
	t.Helper()
	names, err := fs.Glob(files, "files/*")
	if err != nil || len(names) < 5 {
		t.Fatalf("%q, %v", names, err)
	}
	all := make(map[string]string)
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(name, "files/")] = string(data)
	}
	return all
}

func answer(t *testing.T, method, target string, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	Or(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })).ServeHTTP(w, r)
	return w
}

// The code never makes markup of text. The page's policy forbids it too, for what this list forgets.
func TestTheCodeMakesNoMarkup(t *testing.T) {
	sinks := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|document\.write|createContextualFragment|DOMParser|setHTML|srcdoc|\beval\b|new Function|\bimport\(|javascript:|localStorage|sessionStorage|document\.cookie`)
	for name, text := range contents(t) {
		if found := sinks.FindAllString(text, -1); strings.HasSuffix(name, ".js") && found != nil {
			t.Errorf("%s has %q", name, found)
		}
	}
}

// All that the page loads is its own, and no script or style is inline.
func TestThePageLoadsOnlyItsFiles(t *testing.T) {
	all := contents(t)
	references := regexp.MustCompile(`(?:src|href)="([^"]*)"|from '\./([^']*)'|url\(([^)]*)\)`)
	for name, text := range all {
		for _, found := range references.FindAllStringSubmatch(text, -1) {
			target := strings.TrimPrefix(found[1], "page/") + found[2] + found[3]
			if _, ok := all[target]; !ok {
				t.Errorf("%s refers to %q", name, found[0])
			}
		}
		for _, address := range regexp.MustCompile(`https?://[a-zA-Z.]+`).FindAllString(text, -1) {
			if address != "http://www.w" { // a namespace of XML
				t.Errorf("%s has the address %s", name, address)
			}
		}
	}
	if inline := regexp.MustCompile(`<script>|<script [^>]*>[^<]|<style| style=| on[a-z]+=`).FindAllString(all["index.html"], -1); inline != nil {
		t.Errorf("index.html has %q", inline)
	}
}

// The page stays small: it has at most 945 lines without empty lines and comments.
func TestTheSizeOfThePage(t *testing.T) {
	lines := 0
	for _, text := range contents(t) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
	}
	if lines > 945 {
		t.Errorf("the page has %d lines", lines)
	}
}

func TestHeaders(t *testing.T) {
	for name, text := range contents(t) {
		t.Run(name, func(t *testing.T) {
			resp := answer(t, http.MethodGet, Prefix+name, nil)
			if body := resp.Body.String(); resp.Code != http.StatusOK || body != text {
				t.Errorf("%d, %d bytes", resp.Code, len(body))
			}
			for header, value := range Headers {
				if got := resp.Header().Get(header); got != value {
					t.Errorf("%s: %q", header, got)
				}
			}
			if kind := resp.Header().Get("Content-Type"); kind == "" || strings.HasSuffix(name, ".js") && kind != "text/javascript; charset=utf-8" {
				t.Errorf("Content-Type: %q", kind)
			}
			known := map[string]string{"If-None-Match": resp.Header().Get("Etag")}
			if again := answer(t, http.MethodGet, Prefix+name, known); again.Code != http.StatusNotModified {
				t.Errorf("with its ETag: %d", again.Code)
			}
		})
	}
	for _, part := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy is %q", policy)
		}
	}
}

// Other clients than browsers get at / what they got before there was a page.
func TestWhatIsServed(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for name, r := range map[string]struct {
		method, target, accept string
		code                   int
	}{
		"browser":                  {"GET", "/", browser, 200},
		"HEAD":                     {"HEAD", "/", browser, 200},
		"query":                    {"GET", "/?x=1", browser, 200},
		"script":                   {"GET", "/page/app.js", "*/*", 200},
		"any type":                 {"GET", "/", "*/*", 418},
		"no type":                  {"GET", "/", "", 418},
		"JSON":                     {"GET", "/", "application/json", 418},
		"POST":                     {"POST", "/", browser, 418},
		"POST of a file":           {"POST", "/page/app.js", browser, 418},
		"folder":                   {"GET", "/page/", browser, 418},
		"source":                   {"GET", "/page/page.go", browser, 418},
		"file outside":             {"GET", "/page/../page.go", browser, 418},
		"another path of a client": {"GET", "/pods", browser, 418},
	} {
		t.Run(name, func(t *testing.T) {
			if resp := answer(t, r.method, r.target, map[string]string{"Accept": r.accept}); resp.Code != r.code {
				t.Errorf("%d", resp.Code)
			}
		})
	}
}
