package server

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

func (d *daemon) grpc(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// podWith returns a pod with a label and, if its name begins with "mirror", the
// annotation of mirror pods.
func podWith(name, label string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: "7", Labels: map[string]string{"app": label},
	}}
	if strings.HasPrefix(name, "mirror") {
		pod.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
	}
	return pod
}

// asLine returns the message as a line of JSON.
func asLine(t *testing.T, m *podconfigd.WatchResponse) *v1alpha1.Update {
	t.Helper()
	u := &v1alpha1.Update{
		Instance: m.GetInstance(), Revision: m.GetRevision(), Source: m.GetSource(), Message: m.GetMessage(),
		Op:                  v1alpha1.Op(strings.TrimPrefix(m.GetOp().String(), "OPERATION_")),
		InitialSyncComplete: m.GetInitialSyncComplete(), Reset: m.GetReset_(), Continues: m.GetContinues(),
		Restored: m.GetRestored(),
	}
	if m.GetTime() != nil {
		u.Time = new(m.GetTime().AsTime())
	}
	if b := m.GetBookmark(); b != nil {
		u.Ready, u.Sources = new(b.GetReady()), make(map[string]v1alpha1.SourceState)
		for name, s := range b.GetSources() {
			u.Sources[name] = v1alpha1.SourceState{Seen: s.GetSeen(), Restored: s.GetRestored()}
		}
	}
	if e := m.GetEvent(); e != nil {
		u.Event = &v1alpha1.Event{
			Type: e.GetType(), PodUID: e.GetPodUid(), ContainerID: e.GetContainerId(), Container: e.GetContainer(), ExitCode: e.ExitCode,
		}
	}
	for _, data := range m.GetPods() {
		pod := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		if err := pod.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		u.Pods = append(u.Pods, pod)
	}
	return u
}

// Over gRPC, a subscriber gets the same as over HTTP, in the same frames, for any
// request.
func TestWatchSendsTheSameAsTheLines(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	change := func(op config.PodOperation, pods ...*v1.Pod) {
		d.journal.Append(config.PodUpdate{Op: op, Source: config.FileSource, Pods: pods})
	}
	change(config.ADD, podWith("a", "x"), podWith("b", "y"), podWith("mirror-c", "x"))
	subscribers := []struct {
		query   string
		request *podconfigd.WatchRequest
	}{
		{"", &podconfigd.WatchRequest{}},
		{"?mode=snapshot", &podconfigd.WatchRequest{Mode: podconfigd.Mode_MODE_SNAPSHOT}},
		{"?mode=snapshot-and-updates", &podconfigd.WatchRequest{Mode: podconfigd.Mode_MODE_SNAPSHOT_AND_UPDATES}},
		{"?labelSelector=app%3Dx", &podconfigd.WatchRequest{Selector: &podconfigd.PodSelector{LabelSelector: "app=x"}}},
		{"?fieldSelector=metadata.name%3Db&namespace=default", &podconfigd.WatchRequest{
			Selector: &podconfigd.PodSelector{FieldSelector: "metadata.name=b", Namespace: "default"},
		}},
		{"?mirrorPods=false&source=file", &podconfigd.WatchRequest{Selector: &podconfigd.PodSelector{NoMirrorPods: true, Source: "file"}}},
		{"?source=http", &podconfigd.WatchRequest{Selector: &podconfigd.PodSelector{Source: "http"}}},
		{"?ops=ADD,SYNC,RECONCILE", &podconfigd.WatchRequest{Ops: []podconfigd.Operation{
			podconfigd.Operation_OPERATION_ADD, podconfigd.Operation_OPERATION_SYNC, podconfigd.Operation_OPERATION_RECONCILE,
		}}},
		{"?instance=other&since=3", &podconfigd.WatchRequest{Instance: "other", Since: new(int64(3))}},
		{"?ops=PLEG,HOUSEKEEPING", &podconfigd.WatchRequest{Ops: []podconfigd.Operation{
			podconfigd.Operation_OPERATION_PLEG, podconfigd.Operation_OPERATION_HOUSEKEEPING,
		}}},
		{"?since=0", &podconfigd.WatchRequest{Since: new(int64(0))}},
	}
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	var lines []*subscriber
	var streams []grpc.ServerStreamingClient[podconfigd.WatchResponse]
	for _, r := range subscribers {
		lines = append(lines, d.read(t, r.query))
		stream, err := api.Watch(t.Context(), r.request)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
		// Both have started before the first change.
		compareUntil(t, r.query, lines[len(lines)-1], stream, func(u *v1alpha1.Update) bool { return u.InitialSyncComplete })
	}
	change(config.UPDATE, podWith("a", "y"), podWith("mirror-c", "z"))
	change(config.SYNC, podWith("a", "y"))
	d.journal.RecordEvent(podWith("a", "y"), &v1alpha1.Event{
		PodUID: "a", Type: string(pleg.ContainerDied), ContainerID: "c1", Container: "c", ExitCode: new(int32(3)),
	})
	d.journal.HandlePodOrphans(t.Context(), []*v1.Pod{podWith("orphan", "")})
	d.journal.HandlePodOrphans(t.Context(), nil)
	change(config.RECONCILE, podWith("b", "x"))
	change(config.DELETE, podWith("b", "x"))
	change(config.REMOVE, podWith("b", "x"))
	large := podWith("large", "x")
	large.Annotations = map[string]string{"a": strings.Repeat("x", 2*view.PieceSize)}
	large2 := large.DeepCopy()
	large2.UID, large2.Name = "large2", "large2"
	change(config.ADD, large, large2) // is split
	d.journal.Progress()
	state := d.journal.State()
	for i, r := range subscribers {
		compareUntil(t, r.query, lines[i], streams[i], func(u *v1alpha1.Update) bool {
			return u.Revision == state.Revision && !u.Continues
		})
	}
}

// compareUntil compares the next frames of both streams, up to the one for which last is
// true.
func compareUntil(t *testing.T, name string, lines *subscriber, stream grpc.ServerStreamingClient[podconfigd.WatchResponse], last func(*v1alpha1.Update) bool) {
	t.Helper()
	for {
		message, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		want := lines.next(t)
		if diff := cmp.Diff(want, asLine(t, message), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: line (-) and message (+) differ: %s", name, diff)
		}
		if last(want) {
			return
		}
	}
}

func TestWatchSaysWhichFieldIsWrong(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for want, request := range map[string]*podconfigd.WatchRequest{
		"mode: 9 is not a mode":                                       {Mode: 9},
		"since: -1 is not a revision":                                 {Since: new(int64(-1))},
		"instance: requires since":                                    {Instance: "i"},
		"ops[1]: OPERATION_UNSPECIFIED is not an operation":           {Ops: []podconfigd.Operation{1, 0}},
		"ops: mode incremental sends none of them: add one of [ADD ":  {Ops: []podconfigd.Operation{podconfigd.Operation_OPERATION_SET}},
		`selector.source: unknown source "apiserver"`:                 {Selector: &podconfigd.PodSelector{Source: "apiserver"}},
		"selector.label_selector: ":                                   {Selector: &podconfigd.PodSelector{LabelSelector: "=="}},
		`selector.field_selector: field label not supported: spec.x;`: {Selector: &podconfigd.PodSelector{FieldSelector: "spec.x=1"}},
	} {
		t.Run(want, func(t *testing.T) {
			stream, err := api.Watch(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			_, err = stream.Recv()
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	if _, err := api.List(t.Context(), &podconfigd.ListRequest{Selector: &podconfigd.PodSelector{LabelSelector: "=="}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("List: %v", err)
	}
}

func TestListAndGoOn(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	d.add("b", 1)
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	list, err := api.List(t.Context(), &podconfigd.ListRequest{Selector: &podconfigd.PodSelector{FieldSelector: "metadata.name!=a"}})
	if err != nil {
		t.Fatal(err)
	}
	var pod v1.Pod
	if len(list.GetPods()) != 1 || pod.Unmarshal(list.GetPods()[0]) != nil || pod.Name != "b" || !list.GetBookmark().GetReady() {
		t.Errorf("got %v", list)
	}
	d.add("c", 1)
	stream, err := api.Watch(t.Context(), &podconfigd.WatchRequest{Instance: list.GetInstance(), Since: &list.Revision})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || asLine(t, m).Pods[0].Name != "c" {
		t.Errorf("after the list came %v, %v", m, err)
	}
}

func TestHealthAndReflection(t *testing.T) {
	t.Parallel() // it waits
	d := serveJournal(t, journal.Options{})
	conn := d.grpc(t, d.socket)
	health := healthpb.NewHealthClient(conn)
	// The state is updated once a second.
	await := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		stream, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "podconfigd.v1alpha1.PodConfig"})
		if err != nil {
			t.Fatal(err)
		}
		for {
			answer, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if answer.GetStatus() == want {
				return
			}
		}
	}
	await(healthpb.HealthCheckResponse_NOT_SERVING)
	d.add("a", 1)
	await(healthpb.HealthCheckResponse_SERVING)
	d.fallSick("it is ill")
	await(healthpb.HealthCheckResponse_NOT_SERVING)

	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, s := range answer.GetListServicesResponse().GetService() {
		services = append(services, s.GetName())
	}
	for _, want := range []string{"podconfigd.v1alpha1.PodConfig", "v1alpha1.Pods", "grpc.health.v1.Health"} {
		if !slices.Contains(services, want) {
			t.Errorf("the services are %v, without %s", services, want)
		}
	}
}

// When the daemon ends, a stream ends with UNAVAILABLE, after which clients retry.
func TestStreamsEndWithTheServer(t *testing.T) {
	ended := make(chan error, 1)
	t.Run("daemon", func(t *testing.T) {
		d := serveJournal(t, journal.Options{})
		conn, err := grpc.NewClient("unix://"+d.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := podconfigd.NewPodConfigClient(conn).Watch(context.Background(), &podconfigd.WatchRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer conn.Close()
			_, err := stream.Recv()
			ended <- err
		}()
	})
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
}
