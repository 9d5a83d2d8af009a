package daemon_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"k8s.io/apimachinery/pkg/util/intstr"

	configapi "github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// The daemon is not ready while a source that gets another name has no pods. Otherwise its pods in
// the runtime would be orphans, and their mirror pods would be deleted.
func TestReloadRenamesASource(t *testing.T) {
	r := configured(t, "a")
	r.run()
	r.config.FileSources = []configapi.FileSource{{Name: "z", Path: filepath.Join(r.dir, "a")}}
	r.reload("fileSources")
	r.expect("BOOKMARK false (file:z) file file:a", "REMOVE file:a a1-n=1", "BOOKMARK false (file:z) file", "ADD file:z a1-n=1", "BOOKMARK true file file:z")
}

// A reload that removes a source and the rule that hides it shows the pods of the source to
// nobody.
func TestReloadRemovesASourceBeforeItsRule(t *testing.T) {
	r := configured(t, "a")
	r.config.Access = []configapi.AccessRule{{Sources: []string{"file"}, View: "full"}}
	r.run()
	r.config.FileSources, r.config.Access = nil, nil
	r.reload("fileSources", "access")
	r.write("m/m2.yaml", "1")
	for {
		select {
		case line := <-r.lines:
			if strings.Contains(line, "a1-n") {
				t.Fatalf("got %q, a pod that the rules hid until its source was removed", line)
			}
			if strings.Contains(line, "m2-n") {
				return
			}
		case <-time.After(testutil.Patience):
			t.Fatal("no m2-n")
		}
	}
}

// Rules that stay are not replaced: no stream is asked whether it can go on, and nothing is written. Only other rules
// advance the revision.
func TestReloadKeepsTheRules(t *testing.T) {
	r := configured(t)
	r.config.StateDir = filepath.Join(r.dir, "state")
	r.config.Access = []configapi.AccessRule{{Sources: []string{"file"}, View: "full"}}
	r.run()
	revision := func() int64 {
		status, err := client.New(*r.config.Socket).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return status.Revision
	}
	before := revision()
	r.config.SyncFrequency = every(time.Hour)
	r.reload("syncFrequency")
	r.config.Access[0].View = "metadata"
	r.reload("access")
	after := before
	testutil.Until(t, "another revision is stored", func() bool { after = revision(); return after != before })
	if after != before+1 {
		t.Errorf("revision %d, %d before", after, before)
	}
}

// A set that the removal brake holds is of the configuration in which it was read. With another
// URL, it can't be applied any more: not by a release, and not by a greater limit.
func TestReloadDropsAHeldSet(t *testing.T) {
	answers := make(chan string, 2)
	answers <- podsOfTwo
	answers <- `{"apiVersion":"v1","kind":"PodList","items":[]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case answer := <-answers:
			fmt.Fprint(w, answer)
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	r := configured(t)
	r.config.RemovalBrake, r.config.HTTPCheckFrequency = new(intstr.FromInt32(1)), every(time.Millisecond)
	r.config.HTTPSources = []configapi.HTTPSource{{Name: "u", URL: server.URL}}
	r.run()
	c := client.New(*r.config.Socket)
	held := func() bool { return strings.Contains(r.get("/v1alpha1/status"), `"held":{`) }
	for !held() { //nolint:revive // it asks again
	}
	r.config.HTTPSources = []configapi.HTTPSource{{Name: "u", URL: "http://127.0.0.1:1/"}}
	r.config.RemovalBrake = nil
	r.reload("httpSources", "removalBrake")
	if held() {
		t.Error("a set of the URL before is still held")
	}
	if err := c.Release(t.Context(), "http:u"); err == nil || !strings.Contains(err.Error(), "no set of it is held") {
		t.Errorf("the release of a set of the URL before: %v", err)
	}
	r.write("m/m2.yaml", "1")
	r.expect("ADD file m2-n=1") // and no REMOVE
}

// The limit of connections leaves file descriptors for the sources that a reload adds.
func TestReloadReservesDescriptors(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) }()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(limit.Cur, 1000), Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	r := configured(t)
	r.config.MaxSubscribers = new(int32(1000)) // the descriptors limit the connections
	r.run()
	before := r.MaxConnections()
	for i := range 10 {
		name := fmt.Sprint("s", i)
		if err := os.Mkdir(filepath.Join(r.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		r.config.FileSources = append(r.config.FileSources, r.named(name)...)
	}
	r.reload("fileSources")
	if after := r.MaxConnections(); after >= before {
		t.Errorf("%d connections with 10 more sources, %d before", after, before)
	}
}
