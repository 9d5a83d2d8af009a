package apiserver

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	nethttp "net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/test/components"
)

// cluster is an apiserver that has pods and events, and faults. Its connections are pipes, in virtual time.
type cluster struct {
	t          *testing.T
	kubeconfig string
	conns      chan net.Conn
	closed     chan struct{}
	running    sync.WaitGroup

	mu sync.Mutex
	// objects are the pods and the events, by path, as JSON.
	objects map[string][]byte
	version int
	// fault answers the requests whose method and name match.
	fault           func(w nethttp.ResponseWriter, r *nethttp.Request, perform func())
	faultOn, faulty string
	requests        []string
	logged          []string
	// changed is called after each change of an object; before or after is nil if there is none.
	changed func(at string, before, after []byte)
}

// serveCluster runs a test with a cluster, in a bubble of virtual time. run is the part that writes to it. It must end at
// once when the test ends, also while a request hangs.
func serveCluster(t *testing.T, test func(s *cluster)) {
	t.Helper()
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	components.WriteKubeconfig(t, kubeconfig, components.NewKubeconfig("http://127.0.0.1:1", nil))
	synctest.Test(t, func(t *testing.T) {
		s := &cluster{t: t, kubeconfig: kubeconfig, conns: make(chan net.Conn), closed: make(chan struct{}), objects: map[string][]byte{}}
		server := &nethttp.Server{Handler: s}
		s.running.Go(func() { _ = server.Serve(s) })
		defer func() {
			close(s.closed)
			_ = server.Close()
			s.running.Wait()
			if t.Failed() {
				t.Logf("%d requests, logged:\n%s", len(s.requests), strings.Join(s.logged[:min(len(s.logged), 20)], "\n"))
			}
		}()
		test(s)
	})
}

// Accept, Close and Addr make it a net.Listener.
func (s *cluster) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *cluster) Close() error   { return nil }
func (s *cluster) Addr() net.Addr { return &net.TCPAddr{} }

func (s *cluster) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case s.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run runs a part that writes, and returns a function that stops it. Run must end at once.
func (s *cluster) run(part interface {
	Run(ctx context.Context) error
}) (stop func()) {
	logger := funcr.New(func(_, args string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logged = append(s.logged, args)
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = part.Run(ctx) }()
	return func() {
		begin := time.Now()
		cancel()
		<-ended
		if lasted := time.Since(begin); lasted > time.Second {
			s.t.Errorf("it ended %v after it was stopped", lasted)
		}
	}
}

// wait lets time pass, and returns the requests since the last call: "METHOD NAME".
func (s *cluster) wait(d time.Duration) []string {
	<-time.After(d)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// set sets the fault; nil for none. It is for the requests of a method for a name; empty for all.
func (s *cluster) set(fault func(w nethttp.ResponseWriter, r *nethttp.Request, perform func()), method, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.faultOn, s.faulty = fault, method, name
}

func (s *cluster) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	<-time.After(10 * time.Millisecond) // like a real one
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	name := nameIn(r.URL.Path, body)
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+name)
	fault := s.fault
	if (s.faultOn != "" && s.faultOn != r.Method) || (s.faulty != "" && s.faulty != name) {
		fault = nil
	}
	s.mu.Unlock()
	if fault == nil {
		s.perform(w, r, body)
		return
	}
	fault(w, r, func() { s.perform(silent{nethttp.Header{}}, r, body) })
}

// nameIn returns the name of the object of a request: the pod, or the object that the event is about.
func nameIn(at string, body []byte) string {
	if !strings.HasSuffix(at, "/pods") && !strings.HasSuffix(at, "/events") {
		name, _, _ := strings.Cut(path.Base(strings.TrimSuffix(at, "/status")), ".")
		return name
	}
	if object, err := runtime.Decode(codecs().UniversalDeserializer(), body); err == nil {
		switch object := object.(type) {
		case *v1.Pod:
			return object.Name
		case *v1.Event:
			return object.InvolvedObject.Name
		}
	}
	return ""
}

// silent drops an answer.
type silent struct{ header nethttp.Header }

func (s silent) Header() nethttp.Header         { return s.header }
func (s silent) Write(data []byte) (int, error) { return len(data), nil }
func (s silent) WriteHeader(int)                {}

// perform does what an apiserver does.
func (s *cluster) perform(w nethttp.ResponseWriter, r *nethttp.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer, err := s.store(r, body)
	if err != nil {
		w.WriteHeader(int(err.ErrStatus.Code))
		answer, _ = json.Marshal(err.ErrStatus)
	}
	_, _ = w.Write(answer)
}

func (s *cluster) store(r *nethttp.Request, body []byte) ([]byte, *apierrors.StatusError) {
	at, status := strings.CutSuffix(r.URL.Path, "/status")
	resource := podGroupResource
	before := s.objects[at]
	if r.Method != nethttp.MethodPost && before == nil {
		return nil, apierrors.NewNotFound(resource, path.Base(at))
	}
	switch r.Method {
	case nethttp.MethodPost:
		object, err := runtime.Decode(codecs().UniversalDeserializer(), body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		meta := object.(metav1.Object)
		at += "/" + meta.GetName()
		if s.objects[at] != nil {
			return nil, apierrors.NewAlreadyExists(resource, meta.GetName())
		}
		meta.SetUID(types.UID("uid-" + s.next()))
		return s.put(at, object), nil
	case nethttp.MethodPatch:
		return s.patch(at, r.Header.Get("Content-Type"), status, before, body)
	case nethttp.MethodDelete:
		var opts metav1.DeleteOptions
		if object, _, err := codecs().UniversalDeserializer().Decode(body, nil, &opts); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		} else if given, ok := object.(*metav1.DeleteOptions); ok {
			opts = *given
		}
		var pod v1.Pod
		_ = json.Unmarshal(before, &pod)
		if uid := opts.Preconditions.UID; *uid != pod.UID {
			return nil, apierrors.NewConflict(resource, pod.Name, errAnother)
		}
		s.change(at, nil)
	}
	return before, nil
}

func (s *cluster) patch(at, kind string, status bool, before, body []byte) ([]byte, *apierrors.StatusError) {
	if !status { // an event
		after, err := strategicpatch.StrategicMergePatch(before, body, v1.Event{})
		if err != nil {
			return nil, apierrors.NewBadRequest(kind + ": " + err.Error())
		}
		s.change(at, after)
		return after, nil
	}
	var precondition, present, after v1.Pod
	_, _ = json.Unmarshal(body, &precondition), json.Unmarshal(before, &present)
	if precondition.UID != present.UID || precondition.ResourceVersion != present.ResourceVersion {
		return nil, apierrors.NewConflict(podGroupResource, present.Name, errAnother)
	}
	merged, err := jsonpatch.MergePatch(before, body)
	if err != nil || json.Unmarshal(merged, &after) != nil {
		return nil, apierrors.NewBadRequest(kind)
	}
	return s.put(at, &after), nil
}

func (s *cluster) next() string { s.version++; return string(mustJSON(s.version)) }

// put stores an object with a new version.
func (s *cluster) put(at string, object runtime.Object) []byte {
	object.(metav1.Object).SetResourceVersion(s.next())
	kind := "Pod"
	if _, ok := object.(*v1.Event); ok {
		kind = "Event"
	}
	object.GetObjectKind().SetGroupVersionKind(v1.SchemeGroupVersion.WithKind(kind))
	after := mustJSON(object)
	s.change(at, after)
	return after
}

func (s *cluster) change(at string, after []byte) {
	before := s.objects[at]
	if after == nil {
		delete(s.objects, at)
	} else {
		s.objects[at] = after
	}
	if s.changed != nil {
		s.changed(at, before, after)
	}
}

// forget removes all objects, as an apiserver does that was restored from a backup.
func (s *cluster) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.objects {
		s.change(at, nil)
	}
}

// logs returns the number of lines that were logged.
func (s *cluster) logs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.logged)
}

func mustJSON(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// faultsOfWriters are answers to a request that writes.
var faultsOfWriters = map[string]func(w nethttp.ResponseWriter, r *nethttp.Request, perform func()){
	"403":             answerStatus(nethttp.StatusForbidden, metav1.StatusReasonForbidden),
	"404":             answerStatus(nethttp.StatusNotFound, metav1.StatusReasonNotFound),
	"405":             answerStatus(nethttp.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed),
	"409":             answerStatus(nethttp.StatusConflict, metav1.StatusReasonConflict),
	"409 exists":      answerStatus(nethttp.StatusConflict, metav1.StatusReasonAlreadyExists),
	"429":             answerStatus(nethttp.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
	"429 after 0":     answerStatus(nethttp.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Retry-After", "0"),
	"429 after 1":     answerStatus(nethttp.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Retry-After", "1"),
	"429 after 1h":    answerStatus(nethttp.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Retry-After", "3600"),
	"500":             answerStatus(nethttp.StatusInternalServerError, metav1.StatusReasonInternalError),
	"503 after 1":     answerStatus(nethttp.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "Retry-After", "1"),
	"504":             answerStatus(nethttp.StatusGatewayTimeout, metav1.StatusReasonTimeout),
	"403 of a proxy":  answerText(nethttp.StatusForbidden, "<html>forbidden"),
	"404 of a proxy":  answerText(nethttp.StatusNotFound, "<html>not found"),
	"502 of a proxy":  answerText(nethttp.StatusBadGateway, "<html>bad gateway"),
	"200 of a portal": answerText(nethttp.StatusOK, "<html>sign in"),
	"200 empty":       answerText(nethttp.StatusOK, ""),
	"success":         answerSuccess, // and nothing happens
	"hangs": func(_ nethttp.ResponseWriter, r *nethttp.Request, _ func()) {
		<-r.Context().Done()
	},
	"hangs after": func(_ nethttp.ResponseWriter, r *nethttp.Request, perform func()) {
		perform()
		<-r.Context().Done()
	},
	"closes": func(nethttp.ResponseWriter, *nethttp.Request, func()) { panic(nethttp.ErrAbortHandler) },
	"closes after": func(_ nethttp.ResponseWriter, _ *nethttp.Request, perform func()) {
		perform()
		panic(nethttp.ErrAbortHandler)
	},
	"half": func(w nethttp.ResponseWriter, _ *nethttp.Request, perform func()) {
		perform()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":`)
		panic(nethttp.ErrAbortHandler)
	},
}

func answerStatus(code int, reason metav1.StatusReason, header ...string) func(nethttp.ResponseWriter, *nethttp.Request, func()) {
	handler := status(code, reason, header...)
	return func(w nethttp.ResponseWriter, r *nethttp.Request, _ func()) {
		w.Header().Set("Content-Type", "application/json")
		handler(w, r)
	}
}

func answerText(code int, text string) func(nethttp.ResponseWriter, *nethttp.Request, func()) {
	return func(w nethttp.ResponseWriter, _ *nethttp.Request, _ func()) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

func answerSuccess(w nethttp.ResponseWriter, _ *nethttp.Request, _ func()) {
	w.Header().Set("Content-Type", "application/json")
	write(w, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"})
}

// sortedFaults returns the names of the faults.
func sortedFaults() []string { return slices.Sorted(maps.Keys(faultsOfWriters)) }
