package get

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// run runs get pods with a server and flags.
func run(ctx context.Context, server string, out io.Writer, flags ...string) error {
	cmd := NewCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(append([]string{"pods", "--server", server}, flags...))
	return cmd.ExecuteContext(ctx)
}

// Over https, a user may be allowed to read the pods, and not the container runtime.
func TestGetPodsWithoutTheRuntime(t *testing.T) {
	for code, want := range map[int]string{http.StatusForbidden: "", http.StatusNotFound: "", http.StatusInternalServerError: "500 Internal Server Error"} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/pods" {
					w.WriteHeader(code)
					return
				}
				_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"web","namespace":"default"},"spec":{"containers":[{"name":"c"}]}}]}`)
			}))
			t.Cleanup(server.Close)
			var out bytes.Buffer
			err := run(t.Context(), server.URL, &out)
			switch {
			case want == "" && (err != nil || !strings.HasPrefix(out.String(), "NAMESPACE   NAME   SOURCE   CONTAINERS   SEEN\ndefault     web ")):
				t.Errorf("%v, %s", err, &out)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// An earlier version of the daemon refuses the parameter with which /pods has resourceVersions.
func TestGetPodsFromAnEarlierVersion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/pods":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Has("resourceVersions"):
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"b","namespace":"default"}},{"metadata":{"name":"a","namespace":"default"}}]}`)
		}
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	if err := run(t.Context(), server.URL, &out, "-o", "name"); err != nil || out.String() != "pod/a\npod/b\n" {
		t.Errorf("%v, %s", err, &out)
	}
}

// Escape sequences in a pod do not reach the terminal from tables of get pods either.
func TestControlCharactersInPods(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pods" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"web","annotations":{"a":"\u202e\u009b2J\u001b[2J\b\u007f"}},"spec":{"containers":[{"name":"c","image":"i\u009b2J\b\u007f"}]}}]}`)
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	err := run(t.Context(), server.URL, &out, "-o", "wide")
	if err != nil || strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), unicode.IsControl) || strings.Contains(out.String(), "\u202e") || !strings.Contains(out.String(), `\u009b2J`) {
		t.Errorf("%v, %q", err, &out)
	}
}

// JSON and YAML of get pods are printable. The bare values are not changed where no terminal shows
// them.
func TestControlCharactersInFormats(t *testing.T) {
	const value = "x\x1b[31m\u009b2J\u202e\x7f"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "apiVersion": "v1", "items": []any{map[string]any{"metadata": map[string]any{"name": value}}}})
	}))
	t.Cleanup(server.Close)
	for format, want := range map[string]string{
		"json":                               `\u001b[31m\u009b2J\u202e\u007f"`,
		"yaml":                               `name: "x\x1b[31m\u009b2J\u202e\x7f"`,
		"jsonpath-as-json={..metadata.name}": `\u001b[31m\u009b2J\u202e\u007f"`,
		"jsonpath={..metadata.name}":         value,
		"name":                               "pod/" + value + "\n",
	} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), server.URL, &out, "-o", format)
			if err != nil || !strings.Contains(out.String(), want) || !strings.HasSuffix(want, value) && format != "name" && !printable.Is(out.String(), "\n") {
				t.Errorf("%s: %v, %q, want %q", format, err, &out, want)
			}
		})
	}
}
