package podsapi

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// encoded returns a pod as the kubelet sends it.
func encoded(t *testing.T, name, message string, restarts int32) *pod {
	t.Helper()
	p := v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	p.Namespace, p.Name, p.UID = "default", name, "uid-of-"+"a"
	p.Labels = map[string]string{"app": "a"}
	p.Annotations = map[string]string{"a": "b", "kubernetes.io/config.source": "file", "z": ""}
	p.Status = v1.PodStatus{Phase: v1.PodPending}
	if message != "" {
		p.Status = v1.PodStatus{
			Phase: v1.PodRunning, Message: message, StartTime: new(metav1.Unix(1, 0)),
			ContainerStatuses: []v1.ContainerStatus{{Name: "c", RestartCount: restarts}},
		}
	}
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return &got
}

// message returns the message of the last status of the pod; "none" without one.
func (s *statuses) message() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.pods["uid-of-a"]; e != nil && e.status != nil {
		return e.status.Message
	}
	return "none"
}

// TestWhichStatusCounts: an answer counts unless an event came since its request, an event only if it is newer, and
// otherwise GetPod decides.
func TestWhichStatusCounts(t *testing.T) {
	s := newStatuses()
	event := func(p *pod, deleted, wantDoubt bool, want string) {
		t.Helper()
		if doubt, err := s.event(p, deleted); err != nil || doubt != wantDoubt || s.message() != want {
			t.Errorf("doubt %t, %v, status %s; want %t, %s", doubt, err, s.message(), wantDoubt, want)
		}
	}
	answer := func(p *pod, asked uint64, wantDoubt bool, want string) {
		t.Helper()
		if doubt, err := s.answer(p, asked); err != nil || doubt != wantDoubt || s.message() != want {
			t.Errorf("doubt %t, %v, status %s; want %t, %s", doubt, err, s.message(), wantDoubt, want)
		}
	}
	event(encoded(t, "a", "one", 1), false, false, "one")
	event(encoded(t, "a", "two", 2), false, false, "two")
	event(encoded(t, "a", "one", 1), false, true, "two")
	event(encoded(t, "a", "other", 2), false, true, "two")
	answer(encoded(t, "a", "other", 2), s.now(), false, "other")
	answer(encoded(t, "a", "one", 1), s.now(), false, "one") // whatever it looks like

	asked := s.now()
	event(encoded(t, "a", "three", 3), false, false, "three")
	answer(encoded(t, "a", "two", 2), asked, true, "three")
	answer(encoded(t, "a", "four", 4), asked, false, "four")
	if !s.missing("uid-of-a", asked) || s.message() != "four" {
		t.Error("an older answer removes the pod")
	}

	event(encoded(t, "a", "", 0), true, true, "four")  // DELETED has no status
	event(encoded(t, "a", "", 0), false, true, "four") // a placeholder
	answer(encoded(t, "a", "", 0), s.now(), false, "four")
	if s.missing("uid-of-a", s.now()) || s.message() != "none" || len(s.pods) != 0 {
		t.Errorf("a pod that is not there is still known: %s", s.message())
	}
}

// TestLists: a pod that is not in a list is gone, unless an event came since the request.
func TestLists(t *testing.T) {
	s := newStatuses()
	asked, list := s.now(), s.begin()
	if _, err := s.listed(encoded(t, "a", "one", 1), asked, list); err != nil {
		t.Fatal(err)
	}
	s.forgetUnlisted(asked, list, nil)
	if s.message() != "one" {
		t.Error(s.message())
	}
	asked, list = s.now(), s.begin()
	if _, err := s.event(encoded(t, "a", "two", 2), false); err != nil {
		t.Fatal(err)
	}
	s.forgetUnlisted(asked, list, nil)
	if s.message() != "two" {
		t.Error(s.message())
	}
	s.forgetUnlisted(s.now(), s.begin(), nil)
	if s.message() != "none" {
		t.Error(s.message())
	}
}

// TestAway: that the kubelet is away, or is back, is a change of each pod.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStatuses()
		defer s.stop()
		if _, err := s.event(encoded(t, "a", "one", 1), false); err != nil {
			t.Fatal(err)
		}
		for _, live := range []bool{true, false} {
			<-s.notices
			s.dueChanges()
			s.setLive(live)
			s.setLive(live)
		}
		<-s.notices
		if uids := s.dueChanges(); len(uids) != 1 || s.live {
			t.Errorf("%v, %t", uids, s.live)
		}
		select {
		case <-s.notices:
			t.Error("one change too many")
		default:
		}
	})
}

// TestBeginningOfAWatch: for a pod of the apiserver, a kubelet that has just started gives the status that the apiserver
// has. Until the next list, this status replaces no newer one.
func TestBeginningOfAWatch(t *testing.T) {
	s := newStatuses()
	if _, err := s.event(encoded(t, "a", "two", 2), false); err != nil {
		t.Fatal(err)
	}
	begin := func(message string, restarts int32, want string) {
		t.Helper()
		asked, list := s.now(), s.begin()
		if err := s.began(encoded(t, "a", message, restarts), asked, list); err != nil {
			t.Fatal(err)
		}
		if s.forgetUnlisted(asked, list, nil); s.message() != want {
			t.Errorf("%s, want %s", s.message(), want)
		}
	}
	begin("one", 1, "two")
	begin("", 0, "two")
	begin("other", 2, "other")
	begin("three", 3, "three")
	if _, err := s.listed(encoded(t, "a", "one", 1), s.now(), s.begin()); err != nil || s.message() != "one" {
		t.Errorf("%s, %v", s.message(), err)
	}
}
