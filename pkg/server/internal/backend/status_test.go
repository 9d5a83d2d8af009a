package backend

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// The status says what is wrong and what to do, and what the daemon shares is not changed.
func TestDiagnose(t *testing.T) {
	shared := []v1alpha1.Manifest{
		{Path: "/m/a.yaml", State: v1alpha1.ManifestAccepted, Message: "m"},
		{Path: "/m/b.yaml", State: v1alpha1.ManifestRejected, Reason: "Invalid", Message: "b.yaml:3: wrong"},
		{Path: "/m/c.yaml", State: v1alpha1.ManifestRejected, Reason: "Invalid"}, // the rules hide the message
	}
	sources := []v1alpha1.SourceStatus{
		{Name: "file", Seen: true, Degraded: true, File: &v1alpha1.FileStatus{Path: "/m", Manifests: shared}},
		{Name: "http", Seen: true, Degraded: true, Held: &v1alpha1.HeldSet{Removes: 3}, HTTP: &v1alpha1.HTTPStatus{URL: "http://x"}},
	}
	for _, everything := range []bool{true, false} {
		s := v1alpha1.Status{Sources: sources}
		diagnose(&s, everything)
		if diff := cmp.Diff([]string{"2 manifests Rejected", "source file degraded", "source http degraded"}, s.Problems); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		got := s.Sources[0].File.Manifests
		want := []string{"correct /m/b.yaml:3", "to check it before it is read, run podconfigctl validate /m/b.yaml"}
		if diff := cmp.Diff([][]string{nil, want, nil}, [][]string{got[0].Fix, got[1].Fix, got[2].Fix}); diff != "" {
			t.Errorf("manifests (-want +got):\n%s", diff)
		}
		fixes := [][]string{
			{"make /m readable again; an empty directory removes the pods"},
			{"to apply the set that is held, run podconfigctl release http --removes=3; otherwise put back what is missing in the source"},
		}
		if !everything {
			fixes = [][]string{nil, nil}
		}
		if diff := cmp.Diff(fixes, [][]string{s.Sources[0].Fix, s.Sources[1].Fix}); diff != "" {
			t.Errorf("sources, everything %v (-want +got):\n%s", everything, diff)
		}
		if shared[1].Fix != nil || sources[0].Fix != nil {
			t.Fatal("what the daemon shares has changed")
		}
	}
}

// Requests that come while an answer is made get the next answer, which is made once. So no answer
// is older than its request.
func TestAnswersAreMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, made, begin := newAnswers(), 0, make(chan struct{})
		var requests sync.WaitGroup
		get := func(want string) {
			requests.Go(func() {
				data, err := a.get("key", func() ([]byte, error) {
					made++
					n := byte('0' + made)
					<-begin
					return []byte{n}, nil
				})
				if err != nil || string(data) != want {
					t.Errorf("%s, %v, want %s", data, err, want)
				}
			})
		}
		get("1")
		synctest.Wait()
		for range 63 {
			get("2")
		}
		synctest.Wait()
		begin <- struct{}{}
		synctest.Wait()
		get("3")
		synctest.Wait()
		close(begin)
		requests.Wait()
		data, err := a.get("key", func() ([]byte, error) { return nil, errors.New("failed") })
		if made != 3 || data != nil || err == nil {
			t.Errorf("made %d answers; then %s, %v", made, data, err)
		}
	})
}
