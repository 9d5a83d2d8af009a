package client_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// History requests page after page, with the same selection, and ends with the error of a
// page.
func TestHistoryReadsAllPages(t *testing.T) {
	var asked []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		page := v1alpha1.History{Records: []v1alpha1.HistoryRecord{{Revision: int64(2*len(asked) - 1)}, {Revision: int64(2 * len(asked))}}}
		switch r.URL.Query().Get("continue") {
		case "":
			page.Continue = "a"
		case "a":
			page.Continue = "b"
		default:
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"message":"gone"}`))
			return
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	socket := filepath.Join(testutil.ShortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()

	history := client.New(socket).History(t.Context(), client.HistoryOptions{Since: "10m", Source: "file", Pod: "a/b", Pods: true, Instance: "i", After: 7})
	for range 2 { // a sequence can be read again
		var revisions []int64
		var last error
		asked = nil
		for r, err := range history {
			if err != nil {
				last = err
				continue
			}
			revisions = append(revisions, r.Revision)
		}
		if refused, ok := errors.AsType[*client.RefusedError](last); !ok || refused.Code != http.StatusGone || refused.Message != "gone" {
			t.Errorf("it ended with %v", last)
		}
		if !slices.Equal(revisions, []int64{1, 2, 3, 4}) {
			t.Errorf("got %v", revisions)
		}
		if diff := cmp.Diff([]string{
			"/v1alpha1/history?after=7&instance=i&pod=a%2Fb&pods=true&since=10m&source=file",
			"/v1alpha1/history?after=7&continue=a&instance=i&pod=a%2Fb&pods=true&since=10m&source=file",
			"/v1alpha1/history?after=7&continue=b&instance=i&pod=a%2Fb&pods=true&since=10m&source=file",
		}, asked); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for r := range history {
		if r.Revision == 0 {
			t.Error("a record of no page")
		}
		break
	}
}
