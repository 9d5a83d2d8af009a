package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	prometheustest "github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
)

// podsSubscriber runs WatchPods with the kubelet's published client.
type podsSubscriber struct {
	stream grpc.ServerStreamingClient[podsv1alpha1.WatchPodsEvent]
	// pods are its pods, by UID, with their label "app".
	pods map[string]string
}

func watchPods(t *testing.T, conn *grpc.ClientConn) *podsSubscriber {
	t.Helper()
	stream, err := podsv1alpha1.NewPodsClient(conn).WatchPods(t.Context(), &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return &podsSubscriber{stream, make(map[string]string)}
}

// next applies the next event and returns it in short.
func (r *podsSubscriber) next(t *testing.T) string {
	t.Helper()
	event, err := r.stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var pod v1.Pod
	if err := pod.Unmarshal(event.GetPod()); err != nil {
		t.Fatal(err)
	}
	_, held := r.pods[string(pod.UID)]
	switch event.GetType() {
	case podsv1alpha1.EventType_ADDED, podsv1alpha1.EventType_MODIFIED:
		if held != (event.GetType() == podsv1alpha1.EventType_MODIFIED) {
			t.Errorf("%v of %s, which was held: %t", event.GetType(), pod.Name, held)
		}
		r.pods[string(pod.UID)] = pod.Labels["app"]
	case podsv1alpha1.EventType_DELETED:
		if !held || pod.Name == "" || pod.Namespace == "" {
			t.Errorf("DELETED of %s/%s, which was held: %t", pod.Namespace, pod.Name, held)
		}
		delete(r.pods, string(pod.UID))
	}
	return strings.TrimSpace(event.GetType().String() + " " + pod.Name)
}

func (r *podsSubscriber) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := r.next(t); got != w {
			t.Fatalf("got %q, want %q", got, w)
		}
	}
}

func TestPodsAPI(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	api := podsv1alpha1.NewPodsClient(d.grpc(t, d.pods))

	if _, err := api.ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("ListPods before the sources are ready: %v", err)
	}
	if _, err := api.GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: "a"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("GetPod before the sources are ready: %v", err)
	}
	early := watchPods(t, d.grpc(t, d.pods))
	if _, err := early.stream.Recv(); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "waiting for sources: file") {
		t.Errorf("WatchPods before the sources are ready: %v", err)
	}

	change := func(op config.PodOperation, pods ...*v1.Pod) {
		d.journal.Append(config.PodUpdate{Op: op, Source: config.FileSource, Pods: pods})
	}
	change(config.ADD, podWith("b", "x"), podWith("a", "x"), podWith("mirror-c", "x"))
	// The same on both sockets.
	subscribers := []*podsSubscriber{watchPods(t, d.grpc(t, d.pods)), watchPods(t, d.grpc(t, d.socket))}
	for _, r := range subscribers {
		r.expect(t, "ADDED a", "ADDED b", "INITIAL_SYNC_COMPLETE")
	}
	change(config.UPDATE, podWith("a", "y"))
	change(config.UPDATE, podWith("mirror-c", "y"))
	change(config.RECONCILE, podWith("b", "y"))
	change(config.SYNC, podWith("b", "y"))
	change(config.DELETE, podWith("b", "z"))
	change(config.REMOVE, podWith("b", "z"))
	change(config.ADD, podWith("d", "x"))
	for _, r := range subscribers {
		r.expect(t, "MODIFIED a", "MODIFIED b", "MODIFIED b", "DELETED b", "ADDED d")
	}

	list, err := api.ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, data := range list.GetPods() {
		var pod v1.Pod
		if err := pod.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		names = append(names, pod.Name+"="+pod.Labels["app"])
	}
	if fmt.Sprint(names) != "[a=y d=x]" {
		t.Errorf("ListPods has %v", names)
	}
	got, err := api.GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: "a"})
	var pod v1.Pod
	if err != nil || pod.Unmarshal(got.GetPod()) != nil || pod.Labels["app"] != "y" {
		t.Errorf("GetPod: %v, %v", got, err)
	}
	for _, uid := range []string{"b", "mirror-c", ""} {
		if _, err := api.GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: uid}); status.Code(err) != codes.NotFound {
			t.Errorf("GetPod of %q: %v", uid, err)
		}
	}
}

// A subscriber that does not read for a long time is not dropped. It gets the difference,
// and never an event that does not fit its state.
func TestPodsAPIKeepsASlowSubscriber(t *testing.T) {
	d := serveJournal(t, journal.Options{MaxUpdates: 10})
	large := func(name, label string) *v1.Pod {
		pod := podWith(name, label)
		pod.Annotations = map[string]string{"a": strings.Repeat("x", 200<<10)} // more than the buffers hold
		return pod
	}
	change := func(op config.PodOperation, pods ...*v1.Pod) {
		d.journal.Append(config.PodUpdate{Op: op, Source: config.FileSource, Pods: pods})
	}
	change(config.ADD, large("stays", "0"), large("changes", "0"), large("goes", "0"))
	r := watchPods(t, d.grpc(t, d.pods))
	r.expect(t, "ADDED changes", "ADDED goes", "ADDED stays", "INITIAL_SYNC_COMPLETE")
	for i := range 100 {
		if i == 50 { // it is behind then, and the journal does not keep this
			change(config.REMOVE, large("goes", "0"))
			change(config.ADD, large("comes", "0"))
		}
		change(config.UPDATE, large("changes", fmt.Sprint(i)))
		passing := large(fmt.Sprintf("passing-%d", i), "0")
		change(config.ADD, passing)
		change(config.REMOVE, passing)
	}
	change(config.UPDATE, large("z", "0")) // the last one, also by UID
	events := 0
	for r.pods["z"] == "" {
		if got := r.next(t); strings.HasSuffix(got, " stays") {
			t.Errorf("%s: it has this pod, which has not changed", got)
		}
		events++
	}
	if want := map[string]string{"stays": "0", "changes": "99", "comes": "0", "z": "0"}; fmt.Sprint(r.pods) != fmt.Sprint(want) {
		t.Errorf("it holds %v, want %v", r.pods, want)
	}
	if resets := d.journal.Status().Subscribers[0].Resets; resets == 0 {
		t.Errorf("it never fell behind, in %d events", events)
	}
	change(config.UPDATE, large("stays", "1"))
	r.expect(t, "MODIFIED stays")
}

func TestThePodsSocketSpeaksNothingElse(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	other := &daemon{socket: d.pods, http: &http.Client{Transport: unixTransport(d.pods)}}
	if code, body := other.get(t, "/pods"); code != http.StatusNotFound || !strings.Contains(body, "this socket speaks gRPC only") {
		t.Errorf("HTTP: %d %s", code, body)
	}
	_, err := podconfigd.NewPodConfigClient(d.grpc(t, d.pods)).Status(t.Context(), &podconfigd.StatusRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("PodConfig: %v", err)
	}
}

// Each version of a pod is marshaled once per format, for any number and kind of
// subscribers.
func TestPodsAreMarshalledOnceAForm(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	before := map[string]float64{}
	for _, form := range []string{"json", "protobuf"} {
		before[form] = prometheustest.ToFloat64(wire.Encodes().WithLabelValues(form))
	}
	d.add("a", 1)
	var lines []*subscriber
	var subscribers []*podsSubscriber
	var streams []grpc.ServerStreamingClient[podconfigd.WatchResponse]
	modes := []v1alpha1.Mode{v1alpha1.ModeIncremental, v1alpha1.ModeSnapshotAndUpdates, v1alpha1.ModeSnapshot}
	for i := range 30 {
		lines = append(lines, d.read(t, "?mode="+string(modes[i%3])))
		subscribers = append(subscribers, watchPods(t, d.grpc(t, d.socket)))
		stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Watch(t.Context(), &podconfigd.WatchRequest{Mode: podconfigd.Mode(i % 4)})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	const changes = 20
	for i := range changes {
		d.journal.Append(config.PodUpdate{Op: config.UPDATE, Source: config.FileSource, Pods: []*v1.Pod{podWith("a", fmt.Sprint(i))}})
	}
	last := fmt.Sprint(changes - 1)
	for i := range lines {
		for u := lines[i].next(t); len(u.Pods) == 0 || u.Pods[0].Labels["app"] != last; u = lines[i].next(t) {
			continue
		}
		for subscribers[i].pods["a"] != last {
			subscribers[i].next(t)
		}
		for done := false; !done; {
			message, err := streams[i].Recv()
			if err != nil {
				t.Fatal(err)
			}
			u := asLine(t, message)
			done = len(u.Pods) > 0 && u.Pods[0].Labels["app"] == last
		}
	}
	for form, n := range before {
		if n := prometheustest.ToFloat64(wire.Encodes().WithLabelValues(form)) - n; n != changes+1 {
			t.Errorf("%d versions were encoded %v times as %s", changes+1, n, form)
		}
	}
}
