package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	nethttp "net/http"
	"path"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/mirror"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

var (
	podGroupResource = schema.GroupResource{Resource: "pods"}
	errAnother       = errors.New("the object is another one")
)

// mirrors is a node with static pods whose mirror pods are written to a cluster.
type mirrors struct {
	*cluster
	journal *journal.Journal
	status  func() v1alpha1.MirrorStatus
}

// manageMirrors runs a test with the manager of mirror pods, on a cluster whose changes reach the journal.
func manageMirrors(t *testing.T, test func(m *mirrors)) {
	t.Helper()
	serveCluster(t, func(s *cluster) {
		m := &mirrors{cluster: s, journal: journal.New(journal.Options{Sources: []string{"api", "file"}})}
		s.changed = m.show
		writer := NewPodWriter(s.kubeconfig, "test")
		writer.connector.dial = s.dial
		defer writer.Close()
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "node-uid"}}
		manager := mirror.New(mirror.Options{Journal: m.journal, Client: writer, Node: func() *v1.Node { return node }})
		m.status = manager.Status
		for _, source := range []string{"api", "file"} {
			m.journal.Append(config.PodUpdate{Op: config.ADD, Source: source, Pods: []*v1.Pod{}})
		}
		stop := s.run(manager)
		defer stop()
		test(m)
	})
}

// show brings a change to the journal, as the merge does.
func (m *mirrors) show(_ string, before, after []byte) {
	pod := func(data []byte) (pod *v1.Pod) {
		if data != nil {
			_ = json.Unmarshal(data, &pod)
		}
		return pod
	}
	switch was, is := pod(before), pod(after); {
	case is == nil:
		m.put(config.REMOVE, "api", was)
	case was == nil:
		m.put(config.ADD, "api", is)
	default:
		m.put(config.RECONCILE, "api", is)
	}
}

func (m *mirrors) put(op config.PodOperation, source string, pod *v1.Pod) {
	m.journal.Append(config.PodUpdate{Op: op, Source: source, Pods: []*v1.Pod{pod}})
}

// static returns a static pod. With a status, the status is written too.
func static(name, hash string, withStatus bool) *v1.Pod {
	pod := podtest.Pod(name, podtest.UID(name+hash), podtest.Static(hash))
	pod.Spec.NodeName = "node1"
	if withStatus {
		pod.Status = v1.PodStatus{Phase: v1.PodRunning, StartTime: &metav1.Time{Time: time.Unix(1e9, 0)}}
	}
	return pod
}

// replace gives a static pod another hash.
func (m *mirrors) replace(name, from, to string, withStatus bool) {
	m.put(config.REMOVE, "file", static(name, from, withStatus))
	m.put(config.ADD, "file", static(name, to, withStatus))
}

// complete checks that the apiserver has the mirror pods with these hashes, and that the status has no complaint.
func (m *mirrors) complete(withStatus bool, hashes map[string]string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.objects) != len(hashes) {
		m.t.Errorf("%d mirror pods, want %d", len(m.objects), len(hashes))
	}
	for at, data := range m.objects {
		var pod v1.Pod
		_ = json.Unmarshal(data, &pod)
		if got, want := pod.Annotations[v1.MirrorPodAnnotationKey], hashes[path.Base(at)]; got != want {
			m.t.Errorf("%s: the hash is %q, want %q", at, got, want)
		}
		if withStatus && pod.Status.Phase != v1.PodRunning {
			m.t.Errorf("%s: the phase is %q", at, pod.Status.Phase)
		}
	}
	if s := m.status(); s.Pods != len(hashes) || len(s.Problems) != 0 || s.Stopped != nil {
		m.t.Errorf("the status is %+v", s)
	}
}

// effective are the faults in which the request is performed, so that nothing has to be repeated.
var effective = map[string]bool{"hangs after": true, "closes after": true, "half": true}

// Each fault of each request, for a quarter of an hour, on one pod and on all of them: the requests are few, the status says what
// fails, the other pods have their mirror pods, and after the fault all is as it should be.
func TestFaultsOfMirrorPods(t *testing.T) {
	for _, method := range []string{nethttp.MethodPost, nethttp.MethodDelete, nethttp.MethodGet, nethttp.MethodPatch} {
		for _, fault := range sortedFaults() {
			for _, faulty := range []string{"", "b"} {
				for _, withStatus := range []bool{true, false} {
					if !withStatus && (method == nethttp.MethodGet || method == nethttp.MethodPatch) {
						continue // there is no such request
					}
					t.Run(fmt.Sprint(method, " ", fault, " ", faulty, " ", withStatus), func(t *testing.T) {
						manageMirrors(t, func(m *mirrors) { m.duringFault(method, fault, faulty, withStatus) })
					})
				}
			}
		}
	}
}

func (m *mirrors) duringFault(method, fault, faulty string, withStatus bool) {
	names := []string{"a", "b", "c"}
	if method == nethttp.MethodDelete {
		for _, name := range names {
			m.put(config.ADD, "file", static(name, "1", withStatus))
		}
		m.wait(10 * time.Second)
	}
	m.set(faultsOfWriters[fault], method, faulty)
	for _, name := range names {
		if method == nethttp.MethodDelete {
			m.replace(name, "1", "2", withStatus)
		} else {
			m.put(config.ADD, "file", static(name, "2", withStatus))
		}
	}
	logs := m.logs()
	requests := m.wait(15 * time.Minute)
	hits := 0
	for _, r := range requests {
		if strings.HasPrefix(r, method+" ") && (faulty == "" || strings.HasSuffix(r, " "+faulty)) {
			hits++
		}
	}
	most := 30
	if faulty == "" {
		most *= len(names)
	}
	if hits > most {
		m.t.Errorf("%d requests failed in 15 minutes", hits)
	}
	if n := m.logs() - logs; n > 15 {
		m.t.Errorf("%d lines were logged in 15 minutes", n)
	}
	s := m.status()
	if s.Stopped != nil {
		m.t.Errorf("stopped: %s", s.Stopped.Reason)
	}
	if !effective[fault] && len(s.Problems) == 0 && hits > 3 {
		m.t.Errorf("no problem is shown, after %d requests that failed", hits)
	}
	if faulty != "" {
		m.put(config.ADD, "file", static("d", "2", withStatus))
		m.wait(3 * time.Minute)
		m.mu.Lock()
		for _, name := range []string{"a", "c", "d"} {
			var pod v1.Pod
			if _ = json.Unmarshal(m.objects["/api/v1/namespaces/default/pods/"+name], &pod); pod.Annotations[v1.MirrorPodAnnotationKey] != "2" {
				m.t.Errorf("the fault of %s keeps %s from its mirror pod", faulty, name)
			} else if withStatus && pod.Status.Phase != v1.PodRunning {
				m.t.Errorf("the fault of %s keeps %s from its status", faulty, name)
			}
		}
		m.mu.Unlock()
	}
	m.set(nil, "", "")
	m.wait(5 * time.Minute)
	want := map[string]string{"a": "2", "b": "2", "c": "2"}
	if faulty != "" {
		want["d"] = "2"
	}
	m.complete(withStatus, want)
	if requests := m.wait(15 * time.Minute); len(requests) != 0 {
		m.t.Errorf("%d requests after the fault: %s", len(requests), requests[0])
	}
}

// After an apiserver forgot the mirror pods, because it was restored from a backup, they are created again at once.
func TestForgottenMirrorPods(t *testing.T) {
	manageMirrors(t, func(m *mirrors) {
		want := map[string]string{}
		for _, name := range []string{"a", "b", "c"} {
			m.put(config.ADD, "file", static(name, "1", true))
			want[name] = "1"
		}
		m.wait(10 * time.Second)
		m.complete(true, want)
		m.forget()
		m.wait(10 * time.Second)
		m.complete(true, want)
	})
}
