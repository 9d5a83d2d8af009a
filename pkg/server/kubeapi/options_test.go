package kubeapi

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Every number has a range. For other numbers, the error names the parameter.
func TestNumbers(t *testing.T) {
	a := serve(t, journal.Options{})
	a.ready("file")
	a.change(config.ADD, "file", "a/x=1")
	const pod = `200 "name":"x"`
	for _, c := range []struct {
		path, parameter   string
		largest           int64
		zero, withLargest string
	}{
		{"/api/v1/pods?", "timeoutSeconds", maxSeconds, pod, pod},
		{"/api/v1/pods?", "resourceVersion", math.MaxInt64, pod, "504 Too large resource version"},
		{"/api/v1/pods?resourceVersionMatch=Exact&", "resourceVersion", math.MaxInt64, "400 other than 0", "504 Too large resource version"},
		{"/api/v1/pods?watch=true&", "timeoutSeconds", maxSeconds, pod, pod},
		{"/api/v1/pods?watch=true&", "resourceVersion", math.MaxInt64, pod, "200 Expired"},
		{"/api/v1/namespaces/a/pods/x?", "resourceVersion", math.MaxInt64, pod, "504 Too large resource version"},
	} {
		t.Run(c.path+c.parameter, func(t *testing.T) {
			largest, more := strconv.FormatInt(c.largest, 10), strconv.FormatUint(uint64(c.largest)+1, 10)
			want := map[string]string{"0": c.zero, largest: c.withLargest}
			for _, value := range []string{"0", largest, more, "9223372036854775807", "9223372036854775808", "18446744073709551616", "-1", "1e3", "0x1", "x"} {
				expected := cmp.Or(want[value], fmt.Sprintf(`400 parameter \"%s\": expected a whole number from 0 to %d, got \"%s\"`, c.parameter, c.largest, value))
				a.expectBeginning(t, c.path+c.parameter+"="+value, expected)
			}
		})
	}
	// A limit that is not positive means none, as in the apiserver.
	for _, path := range []string{"/api/v1/pods?limit=", "/api/v1/pods?watch=true&limit="} {
		for _, value := range []string{"0", "-1", "-9223372036854775808", "1", "9223372036854775807"} {
			a.expectBeginning(t, path+value, pod)
		}
		for _, value := range []string{"-9223372036854775809", "9223372036854775808", "1e3", "x"} {
			a.expectBeginning(t, path+value, `400 parameter \"limit\": expected a whole number from -9223372036854775808 to 9223372036854775807, got \"`+value)
		}
	}
	a.expectBeginning(t, "/api/v1/pods?watch=true&timeoutSeconds=18446744074", `400 parameter \"timeoutSeconds\"`)
	longest := a.watch(t, fmt.Sprintf("resourceVersion=%d&timeoutSeconds=%d", a.base+1, maxSeconds))
	a.change(config.UPDATE, "file", "a/x=2")
	longest.expect(t, "MODIFIED a/x=2@2")
}

// expectBeginning checks an answer: "200 text" is the code, and a text at the start of
// its body.
func (a *api) expectBeginning(t *testing.T, path, want string) {
	t.Helper()
	code, body := a.request(t, path, "")
	beginning := make([]byte, 64<<10)
	n, _ := body.Read(beginning)
	wantCode, text, _ := strings.Cut(want, " ")
	if strconv.Itoa(code) != wantCode || !strings.Contains(string(beginning[:n]), text) {
		t.Errorf("%s: got %d %s, want %s", path, code, beginning[:n], want)
	}
}

// The request of an informer with a limit for its lists.
func TestWatchesTakeALimit(t *testing.T) {
	a := serve(t, journal.Options{})
	a.ready("file")
	a.change(config.ADD, "file", "a/x=1")
	a.change(config.ADD, "file", "a/y=1")
	w := a.watch(t, "limit=1")
	w.expect(t, "ADDED a/x=1@1", "ADDED a/y=1@2")
	a.change(config.UPDATE, "file", "a/x=2")
	w.expect(t, "MODIFIED a/x=2@3")
}

func TestTrailingSlashes(t *testing.T) {
	a := serve(t, journal.Options{})
	a.change(config.ADD, "file", "a/x=1")
	for _, path := range []string{"/api", "/apis", "/api/v1", "/api/v1/pods", "/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/x"} {
		code, want := a.get(t, path, "")
		withSlash, got := a.get(t, path+"/", "")
		if code != http.StatusOK || withSlash != code || got != want {
			t.Errorf("%s/: %d %s, want %s", path, withSlash, got, want)
		}
	}
	for _, path := range []string{"/api/v1/pods/x/", "/api/v1/namespaces/a/pods/x/log/", "/api/v2/"} {
		if code, body := a.get(t, path, ""); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// The answer has the supported format with the greatest weight.
func TestAcceptedForms(t *testing.T) {
	a := serve(t, journal.Options{})
	a.change(config.ADD, "file", "a/x=1")
	for accept, want := range map[string]string{
		"":              jsonType,
		"*/*":           jsonType,
		"application/*": jsonType,
		"application/vnd.kubernetes.protobuf, application/json":             protobufType,
		"application/json;q=0.5, application/vnd.kubernetes.protobuf;q=0.9": protobufType,
		"application/vnd.kubernetes.protobuf;q=0.1, */*;q=0.3":              jsonType,
		"application/yaml, application/json;q=0.1":                          jsonType,
		"application/json;as=Table;g=meta.k8s.io;v=v2, application/json":    jsonType,
		"application/json;stream=watch":                                     jsonType,
		"application/yaml;q=0.5":                                            "",
		"text/html":                                                         "",
		"application/json;as=Table;g=meta.k8s.io":                           "",
		"application/json;as=Pods;g=meta.k8s.io;v=v1":                       "",
		"application/json;v=v2":                                             "",
		"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1":   "",
		";;,/,q=,": "",
	} {
		t.Run(accept, func(t *testing.T) {
			for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/a/pods/x"} {
				answer := a.do(t, http.MethodGet, path, accept, "")
				got, wantCode := answer.header.Get("Content-Type"), http.StatusOK
				if want == "" {
					wantCode, want = http.StatusNotAcceptable, jsonType
				}
				if answer.code != wantCode || got != want {
					t.Errorf("%s, Accept: %s: %d %s, want %d %s", path, accept, answer.code, got, wantCode, want)
				}
				if wantCode == http.StatusNotAcceptable {
					want = ""
				}
			}
		})
	}
}

// One object is also served as YAML, for people. A list is not.
func TestYAML(t *testing.T) {
	a := serve(t, journal.Options{})
	a.change(config.ADD, "file", "a/x=1")
	answer := a.do(t, http.MethodGet, "/api/v1/namespaces/a/pods/x", yamlType, "")
	body, err := io.ReadAll(answer.body)
	if kind := answer.header.Get("Content-Type"); err != nil || answer.code != http.StatusOK || kind != yamlType || !strings.HasPrefix(string(body), "apiVersion: v1\nkind: Pod\n") {
		t.Errorf("%d %s %s, %v", answer.code, kind, body, err)
	}
	if list := a.do(t, http.MethodGet, "/api/v1/pods", yamlType, ""); list.code != http.StatusNotAcceptable {
		t.Errorf("a list: %d", list.code)
	}
}

func TestParametersOfTables(t *testing.T) {
	a := serve(t, journal.Options{})
	a.change(config.ADD, "file", "a/x=1")
	const accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, path := range []string{"/api/v1/pods?includeObject=all", "/api/v1/namespaces/a/pods/x?includeObject=all", "/api/v1/pods?watch=1&timeoutSeconds=1&includeObject=all"} {
		code, body := a.get(t, path, accept)
		if code != http.StatusBadRequest || !strings.Contains(body, `parameter \"includeObject\": expected Metadata, Object or None, got \"all\"`) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}
