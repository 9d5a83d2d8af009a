package kubelet

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Mirror pods that a kubelet left behind do not show that there is one.
func TestMirrorPodsOfALostKubelet(t *testing.T) {
	f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: PresenceAuto})
	f.probe(t.Context())
	mirror := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-node1", UID: "1", Annotations: map[string]string{v1.MirrorPodAnnotationKey: "u"}}}
	if f.MirrorPod(mirror, false); f.Present() {
		t.Error("a mirror pod that everybody can create shows a kubelet")
	}
	mirror.Status.StartTime = new(metav1.Now())
	f.MirrorPod(mirror, false)
	for _, ready := range []*v1.NodeCondition{
		nil, {Status: v1.ConditionTrue}, {Status: v1.ConditionUnknown, LastHeartbeatTime: metav1.Now()}, {Status: v1.ConditionFalse},
	} {
		f.SetReady(ready)
		if lost := ready != nil && ready.Status == v1.ConditionUnknown; f.Present() == lost {
			t.Errorf("the Node says %v: present %t", ready, f.Present())
		}
	}
}

// A mirror pod that is gone shows no kubelet, also if somebody has given it the annotation of podconfigd before.
func TestAMirrorPodIsGone(t *testing.T) {
	f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: PresenceAuto})
	f.probe(t.Context())
	mirror := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-node1", UID: "1", Annotations: map[string]string{v1.MirrorPodAnnotationKey: "u"}},
		Status:     v1.PodStatus{StartTime: new(metav1.Now())},
	}
	if f.MirrorPod(mirror, false); !f.Present() {
		t.Fatal("a mirror pod of a kubelet shows none")
	}
	mirror.Annotations[config.OwnMirrorAnnotationKey] = ""
	if f.MirrorPod(mirror, true); f.Present() {
		t.Error("it still shows a kubelet")
	}
}

// The Node shows a kubelet without static pods whose health check has another port, as long as it writes its conditions.
func TestPresenceByTheNode(t *testing.T) {
	for name, test := range map[string]struct {
		ready   *v1.NodeCondition
		written bool
		ahead   time.Duration // of the clock
		want    bool
	}{
		"no condition":   {nil, false, 0, false},
		"ready":          {&v1.NodeCondition{Status: v1.ConditionTrue}, true, 0, true},
		"not ready":      {&v1.NodeCondition{Status: v1.ConditionFalse}, true, 0, true},
		"not written":    {&v1.NodeCondition{Status: v1.ConditionTrue}, false, 0, false},
		"unknown":        {&v1.NodeCondition{Status: v1.ConditionUnknown}, true, 0, false},
		"clock set back": {&v1.NodeCondition{Status: v1.ConditionTrue}, true, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: PresenceAuto})
				f.probe(t.Context())
				if test.written {
					test.ready.LastHeartbeatTime = metav1.NewTime(time.Now().Add(test.ahead))
				}
				for _, before := range []*v1.NodeCondition{nil, {Status: v1.ConditionTrue, LastHeartbeatTime: metav1.Now()}} {
					f.SetReady(before)
					if f.SetReady(test.ready); f.Present() != test.want {
						t.Errorf("present %t, after %v", !test.want, before)
					}
				}
				if pass(heartbeatAfter); f.Present() {
					t.Error("a kubelet that no longer writes its conditions is present")
				}
			})
		})
	}
}

// probe asks for the health until there is an answer in time: a machine may be slow.
func probe(t *testing.T, f *Finder) {
	t.Helper()
	testutil.Until(t, "the kubelet is present", func() bool {
		f.probe(t.Context())
		return f.Present()
	})
}

// A program at the port of the health check can't make podconfigd send requests to others.
func TestProbeFollowsNoRedirect(t *testing.T) {
	var asked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer other.Close()
	healthz := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer healthz.Close()
	f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: PresenceAuto, HealthzURL: healthz.URL})
	probe(t, f)
	if asked.Load() {
		t.Error("another server was asked")
	}
}

func TestPresence(t *testing.T) {
	healthz := httptest.NewServer(http.NotFoundHandler())
	defer healthz.Close()
	for name, test := range map[string]struct {
		presence Presence
		url      string
		want     bool
	}{
		"healthy":            {PresenceAuto, healthz.URL, true},
		"no answer":          {PresenceAuto, "http://127.0.0.1:1/healthz", false},
		"configured":         {PresenceYes, "http://127.0.0.1:1/healthz", true},
		"configured without": {PresenceNo, healthz.URL, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: test.presence, HealthzURL: test.url})
			if test.presence == PresenceAuto && !f.Present() {
				t.Error("before it was asked, the kubelet counts as absent")
			}
			if test.want {
				probe(t, f)
			} else if f.probe(t.Context()); f.Present() {
				t.Errorf("%+v: present", test)
			}
		})
	}
}

// A kubelet whose health check no longer answers is present for a while: an upgrade of it takes less.
func TestPresenceByAnEarlierAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: PresenceAuto})
		f.probed, f.answered = true, time.Now()
		if pass(absentAfter - time.Second); !f.Present() {
			t.Error("a kubelet that answered a while ago is absent")
		}
		if pass(time.Second); f.Present() {
			t.Error("a kubelet that has not answered for long is present")
		}
	})
}

// A kubelet without a Pods API shows by its version in the Node, or by a health check that answers or a condition of the Node that it
// writes while nobody serves the socket. A kubelet 1.36 that had the API can have it again after a restart.
func TestWithoutPodsAPI(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		want    bool
	}{"no version": {"", false}, "v1.36": {"v1.36.3", true}, "v1.37": {"v1.37.2", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: PresenceAuto})
				f.SetNode(test.version)
				if got := f.WithoutPodsAPI(time.Now(), false); got != test.want {
					t.Errorf("%q: %t", test.version, got)
				}
				if f.WithoutPodsAPI(time.Now(), true) {
					t.Errorf("%q: a kubelet that restarts has no Pods API any more", test.version)
				}
				unserved := time.Now()
				pass(time.Second)
				f.SetNode("v1.36.4")
				if got := f.WithoutPodsAPI(unserved, true); got != (test.version != "") { // the first version can be an old one
					t.Errorf("v1.36.4 after %q: %t", test.version, got)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: PresenceAuto})
		unserved := time.Now()
		f.answered = unserved.Add(podsAPIAfter)
		if f.WithoutPodsAPI(unserved, true) {
			t.Error("a kubelet that has just started has no Pods API")
		}
		f.answered = f.answered.Add(time.Second)
		if !f.WithoutPodsAPI(unserved, true) {
			t.Error("a kubelet that answers without a socket has a Pods API")
		}
		f.answered = time.Time{}
		pass(podsAPIAfter)
		for _, want := range []bool{false, true} {
			f.SetReady(&v1.NodeCondition{Status: v1.ConditionTrue, LastHeartbeatTime: metav1.Now()})
			if got := f.WithoutPodsAPI(unserved, true); got != want {
				t.Errorf("a kubelet that writes its Node %v later: %t", time.Since(unserved), got)
			}
			pass(time.Second)
		}
	})
}
