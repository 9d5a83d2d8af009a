package daemon

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

var (
	addressInLog = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)
	headerOfLog  = regexp.MustCompile(`^[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+\.go:\d+\] `)
)

// A path of a request, and a name of a file, have line breaks and escape sequences. Each line of the
// log is still one of podconfigd.
func TestForgedLogLines(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			dir := testutil.ShortDir(t)
			d := &e2e.Daemon{Dir: dir}
			d.Mkdir(t)
			tokens := filepath.Join(dir, "tokens")
			if err := os.WriteFile(tokens, []byte("token,user,uid\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			d = e2e.Start(t, dir, "--listen", "https://127.0.0.1:0", "--token-auth-file", tokens, "--authorization-mode", "AlwaysAllow",
				"--logging-format", format, "-v", "6")
			d.Await(t, "the https address", func() bool { return addressInLog.MatchString(d.Log.String()) })
			d.PutFile(t, "b\nI1123 FAKE \x1b[31m\u202e", "kind: [\n")
			request(t, d, "/a%0aI1123%20FAKE%20%1b[31m")
			for _, want := range []string{`/a\nI1123 FAKE `, `b\nI1123 FAKE `} {
				d.Await(t, want, func() bool { return strings.Contains(d.Log.String(), want) })
			}
			_, err := d.End(t, os.Interrupt)
			if err != nil {
				t.Error(err)
			}
			for line := range strings.Lines(d.Log.String()) {
				line = strings.TrimSuffix(line, "\n")
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("not printable: %q", line)
				}
				if format == "json" && !json.Valid([]byte(line)) || format == "text" && !headerOfLog.MatchString(line) {
					t.Errorf("no record: %s", line)
				}
			}
		})
	}
}

// request sends a request without credentials to the https address.
func request(t *testing.T, d *e2e.Daemon, target string) {
	t.Helper()
	address := strings.TrimPrefix(addressInLog.FindString(d.Log.String()), "https://")
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %s", response.Status)
	}
}
