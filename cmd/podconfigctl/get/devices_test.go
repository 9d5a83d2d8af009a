package get

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// serveDevices serves the pod a with two devices, and the pods b, c and d without. Each has another answer to a lookup.
func serveDevices(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pod := func(name string) string {
			return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"` + name + `","namespace":"default","uid":"` + name + `","resourceVersion":"1"}}`
		}
		all := pod("a") + "," + pod("b") + "," + pod("c") + "," + pod("d")
		switch uid := r.URL.Query().Get("podUID"); {
		case r.URL.Path == "/v1alpha1/status":
			_, _ = io.WriteString(w, `{}`)
		case uid == "a":
			_, _ = io.WriteString(w, `{"pods":[{"resources":[{"container":"c","cpus":[3],"devices":[{"resource":"example.com/gpu","ids":["0","1\u001b"],"numa":[1]}],
				"dynamicResources":[{"claim":"x","devices":[{"driver":"nic.example.com","pool":"p","device":"d"}]}]}]}]}`)
		case uid == "b":
			_, _ = io.WriteString(w, `{"pods":[{}]}`)
		case uid == "c":
			_, _ = io.WriteString(w, `{"pods":[]}`)
		case uid == "d":
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`+all+`]}`)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The devices of pods are a column, also without -o wide.
func TestDevices(t *testing.T) {
	url := serveDevices(t)
	for _, flags := range []string{"--devices", "--devices -o wide"} {
		var out bytes.Buffer
		if err := run(t.Context(), url, &out, strings.Fields(flags)...); err != nil {
			t.Fatal(err)
		}
		var last []string
		for line := range strings.Lines(out.String()) {
			fields := strings.Fields(line)
			last = append(last, fields[len(fields)-1])
		}
		if got := strings.Join(last, " "); got != `DEVICES example.com/gpu:0,example.com/gpu:1\x1b,nic.example.com:p/d <none> <none> <none>` {
			t.Errorf("%s: got %s", flags, got)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), url, &out); err != nil || strings.Contains(out.String(), "DEVICES") {
		t.Errorf("without the flag: %v\n%s", err, &out)
	}
}

// If the daemon does not know the devices, the list says so.
func TestDevicesThatAreNotKnown(t *testing.T) {
	for status, want := range map[string]bool{
		`{}`:             true, // also of an earlier version
		`{"devices":{}}`: true,
		`{"devices":{"lastList":"2026-01-02T15:04:05Z"}}`: false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1alpha1/status" {
				_, _ = io.WriteString(w, status)
			} else {
				_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[]}`)
			}
		}))
		t.Cleanup(server.Close)
		var notes bytes.Buffer
		cmd := NewCommand()
		cmd.SetArgs([]string{"pods", "--devices", "--server", server.URL})
		cmd.SetOut(io.Discard)
		cmd.SetErr(&notes)
		if err := cmd.ExecuteContext(t.Context()); err != nil || strings.Contains(notes.String(), "does not know the devices") != want {
			t.Errorf("%s: %v, %q", status, err, &notes)
		}
	}
}

// In JSON, a pod has them beside its metadata.
func TestDevicesInJSON(t *testing.T) {
	url := serveDevices(t)
	for flags, want := range map[string]string{
		"--devices -o jsonpath={.items[*].resources[0].devices[0].ids[0]},{.items[0].resources[0].cpus}": "0,[3]",
		"--devices -o jsonpath={.items[1].resources}":                                                    "",
		"-o jsonpath={.items[0].resources}":                                                              "",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), url, &out, strings.Fields(flags)...); err != nil || out.String() != want {
			t.Errorf("%s: got %q, %v, want %q", flags, out.String(), err, want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), url, &out, "a", "--devices", "-o", "json"); err != nil || !strings.Contains(out.String(), `"driver": "nic.example.com"`) {
		t.Errorf("one pod: %v\n%s", err, &out)
	}
}
