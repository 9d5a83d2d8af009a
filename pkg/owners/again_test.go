package owners

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// An owner is read again after 30 to 45 minutes. The file is written only if something changed.
func TestAdoptedReplicaSet(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web")
		w.object(apps+"replicasets/web-1", "")
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.expectRequests(w.pass(time.Second), apps+"replicasets/web-1")
		w.object(apps+"replicasets/web-1", "apps/v1 Deployment web") // adopts it
		w.expectRequests(w.pass(reread - 2*time.Second))
		w.expectRequests(w.pass(reread/2+2*time.Second), apps+"replicasets/web-1", apps+"deployments/web")
		w.expect("a", "replicaset/web-1+ deployment/web+")
		if n := len(w.journal.ByUID("a").Owners); n != 2 {
			t.Errorf("subscribers get %d owners", n)
		}

		w.pass(savePeriod)
		if err := os.Remove(w.file); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * reread) // each is read once or twice
		if n := testutil.ToFloat64(w.resolver.requests.WithLabelValues(resultOK)); n < 3+2 || n > 3+2*2 {
			t.Errorf("%v requests", n)
		}
		w.stop()
		if _, err := os.Stat(w.file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file was written: %v", err)
		}
		w.run()
	})
}

// It is read again after a restart too, and what has changed is stored.
func TestAdoptedAfterARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1")
		w.deployment("shop")
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.pass(time.Second)
		w.stop()
		w.object(apps+"replicasets/web-1", "apps/v1 Deployment shop")
		w.run()
		w.expectRequests(w.pass(reread - 2*time.Second))
		w.pass(reread/2 + 2*time.Second)
		w.expect("a", "replicaset/web-1+ deployment/shop+")

		stored := func() string {
			w.stop()
			data, err := os.ReadFile(w.file)
			if err != nil {
				t.Fatal(err)
			}
			w.run()
			w.pass(reread + reread/2)
			return string(data)
		}
		w.pass(2 * time.Hour) // the other Deployment is forgotten
		stored()
		w.mu.Lock()
		w.objects[apps+"deployments/shop"].Labels = map[string]string{"tier": "front"}
		w.mu.Unlock()
		w.pass(reread + reread/2)
		if text := stored(); !strings.Contains(text, "front") {
			t.Errorf("other labels: stored %s", text)
		}
		w.object(apps+"replicasets/web-1", "") // orphaned
		w.pass(reread + reread/2)
		w.expect("a", "replicaset/web-1+")
		if text := stored(); strings.Contains(text, `"up"`) {
			t.Errorf("orphaned: stored %s", text)
		}
	})
}

// While known owners can't be read again, what is known stays. They are asked for at most every five minutes, and after the others.
func TestKnownOwnersThatFail(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1")
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.pass(time.Second)
		w.set(func(string) error { return errNotFound })
		w.pass(reread + reread/2)
		w.set(unavailable)
		w.pass(time.Hour)
		if n := len(w.pass(time.Hour)); n < 16 || n > 24 { // two, each after 5 to 7.5 minutes
			t.Errorf("%d requests in an hour", n)
		}
		w.expect("a", "replicaset/web-1+ deployment/web+")
		if s := w.resolver.Status(); s.Known != 2 || s.Waiting != 0 || s.LastError != "" || len(s.Notes) != 0 {
			t.Errorf("%+v", s)
		}
		w.add("apps/v1 ReplicaSet web-2", "b")
		if n := len(w.pass(10 * time.Second)); n < 3 {
			t.Errorf("%d requests for another one", n)
		}
		if n, m := w.lines("does not have the owner"), w.lines("Could not read the owner"); n != 2 || m != 1 {
			t.Errorf("%d and %d lines", n, m)
		}
		w.resolver.mu.Lock()
		for _, o := range w.resolver.owners { // all are due
			o.backoff.Next, o.asked = time.Time{}, time.Time{}
		}
		if o, _ := w.resolver.next(time.Now()); o.Name != "web-2" {
			t.Errorf("asks for %s", o.Name)
		}
		w.resolver.mu.Unlock()

		w.remove("a") // its owners stay known
		w.set(nil)
		w.pass(2 * time.Minute)
		if n := w.lines("can be read again"); n != 1 {
			t.Errorf("after the end of the pod: %d lines", n)
		}
	})
}

// A fault of one owner is said once, until the apiserver answers for it, whatever it answers for others.
func TestOneOwnerFails(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set(func(path string) error {
			if strings.HasSuffix(path, "/broken") {
				return unavailable(path)
			}
			return nil
		})
		w.add("apps/v1 ReplicaSet broken", "a")
		for i := range 20 {
			w.add(fmt.Sprint("apps/v1 ReplicaSet gone-", i), fmt.Sprint("pod-", i))
		}
		w.pass(time.Hour)
		if n, m := w.lines("Could not read the owner"), w.lines("can be read again"); n != 1 || m != 0 {
			t.Errorf("%d and %d lines", n, m)
		}
		w.set(nil)
		w.pass(5 * time.Minute)
		if n, m := w.lines("Could not read the owner"), w.lines("can be read again"); n != 1 || m != 1 {
			t.Errorf("after the fault: %d and %d lines", n, m)
		}

		w.set(unavailable)
		w.add("apps/v1 ReplicaSet broken-2", "b")
		w.pass(time.Second)
		w.set(nil)
		w.remove("b") // nobody asks for it any more
		w.pass(10 * time.Minute)
		if n, m := w.lines("Could not read the owner"), w.lines("can be read again"); n != 2 || m != 2 {
			t.Errorf("without the pod: %d and %d lines", n, m)
		}
	})
}

// The fault also ends if the apiserver answers that owners of this kind may not be read: of all owners, it then asks for one.
func TestForbiddenAfterAFault(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set(unavailable)
		for i := range 60 {
			w.add(fmt.Sprint("apps/v1 ReplicaSet web-", i), fmt.Sprint("pod-", i))
		}
		w.pass(time.Minute)
		if s := w.resolver.Status(); s.LastError == "" || s.Waiting != 60 {
			t.Errorf("%+v", s)
		}
		w.set(forbidden)
		w.pass(5 * time.Minute)
		if s := w.resolver.Status(); s.LastError != "" || len(s.Notes) != 1 {
			t.Errorf("forbidden: %+v", s)
		}
		if n := w.lines("can be read again"); n != 1 {
			t.Errorf("%d lines", n)
		}
	})
}
