package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/canary"
)

// The table of everything that leaves the daemon: each request of canaryPaths in each form, each call
// of canaryCalls, each stream, and the log, by each view, before and after a restart with the state
// directory. It has pods in which each field is set, and which change in every way; see world. The
// status is in TestStatusByView, and the fields of all answers are in TestFieldsOfAnswers.

// wholePods are the ways out that have pods in the form of the view, with the operations that each
// must show. All others have no text of a pod.
var wholePods = map[string][]string{
	"/v1alpha1/updates":                   {"ADD", "UPDATE", "REMOVE", "DELETE", "RECONCILE", "SET", "SYNC", "PLEG", "HOUSEKEEPING"},
	"/v1alpha1/history":                   {"ADD", "UPDATE", "REMOVE", "DELETE", "RECONCILE"},
	"/v1alpha1/lookup":                    {""},
	"/pods":                               {""},
	"/pods/{$}":                           {""},
	"/api/v1/pods":                        {"", "ADDED", "MODIFIED", "DELETED"},
	"/api/v1/namespaces/{namespace}/pods": {"", "ADDED", "MODIFIED", "DELETED"},
	"/api/v1/namespaces/{namespace}/pods/{name}": {""},
	"podconfigd.v1alpha1.PodConfig/Watch":        {"ADD", "UPDATE", "REMOVE", "DELETE", "RECONCILE", "SYNC", "PLEG", "HOUSEKEEPING"},
	"podconfigd.v1alpha1.PodConfig/List":         {""},
	"podconfigd.v1alpha1.PodConfig/History":      {"ADD", "UPDATE", "REMOVE", "DELETE", "RECONCILE"},
	"podconfigd.v1alpha1.PodConfig/Lookup":       {""},
	"podconfigd.v1alpha1.PodConfig/LookupStream": {""},
	// These have texts of pods, but no pods.
	"/v1alpha1/containers":                          {},
	"podconfigd.v1alpha1.PodConfig/WatchContainers": {},
	"podconfigd.v1alpha1.PodConfig/ListContainers":  {},
	"v1alpha1.Pods/ListPods":                        {""},
	"v1alpha1.Pods/GetPod":                          {""},
	"v1alpha1.Pods/WatchPods":                       {"ADDED", "MODIFIED", "DELETED"},
}

// allowedOf are the fields that a view shows: those of pkg/access/testdata.
func allowedOf(t *testing.T, level access.Level) []string {
	t.Helper()
	switch level {
	case access.None:
		return nil
	case access.Full:
		return canary.Fields(filledPod("edited", "edited", 1))
	}
	data, err := os.ReadFile(fmt.Sprintf("../access/testdata/%v.txt", level))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// ofTheServer are the fields of a pod that the server sets in some of its forms. They have no text of
// the pod.
var ofTheServer = []string{"kind", "apiVersion", "metadata.resourceVersion", "metadata.generation"}

// sightings are the fields that were seen, by way and operation.
type sightings struct {
	allowed []string
	// texts are allowed in texts beside pods.
	texts []string
	seen  map[string]map[string]map[string]struct{}
}

// look reports what an answer has beyond what is allowed.
func (s *sightings) look(t *testing.T, way, answer string, pods []sighting) {
	t.Helper()
	allowed := s.texts
	if _, whole := wholePods[way]; whole {
		allowed = slices.Concat(s.allowed, s.texts)
	}
	if extra := canary.Beyond(canary.Texts(answer), allowed); len(extra) > 0 {
		t.Errorf("%s shows the texts %q", way, extra)
	}
	for _, p := range pods {
		fields := canary.Fields(p.pod)
		if extra := canary.Beyond(fields, slices.Concat(s.allowed, ofTheServer)); len(extra) > 0 {
			t.Errorf("%s %s shows the fields %q", way, p.op, extra)
		}
		if s.seen[way] == nil {
			s.seen[way] = make(map[string]map[string]struct{})
		}
		if s.seen[way][p.op] == nil {
			s.seen[way][p.op] = make(map[string]struct{})
		}
		for _, field := range fields {
			s.seen[way][p.op][field] = struct{}{}
		}
	}
}

// complete reports what was to be seen, and was not.
func (s *sightings) complete(t *testing.T) {
	t.Helper()
	for way, ops := range wholePods {
		for _, op := range ops {
			missing := slices.DeleteFunc(slices.Clone(s.allowed), func(field string) bool {
				_, seen := s.seen[way][op][field]
				return seen || slices.Contains(ofTheServer, field) // protobuf has no kind
			})
			if len(missing) > 0 {
				t.Errorf("%s %s does not show %q", way, op, missing)
			}
		}
	}
}

// journeyCalls are the calls that stream, with a function that receives.
var journeyCalls = map[string]func(context.Context, *grpc.ClientConn) (func() (proto.Message, error), error){
	"podconfigd.v1alpha1.PodConfig/Watch": func(ctx context.Context, c *grpc.ClientConn) (func() (proto.Message, error), error) {
		s, err := podconfigd.NewPodConfigClient(c).Watch(ctx, &podconfigd.WatchRequest{Ops: allOperations()})
		return func() (proto.Message, error) { return s.Recv() }, err
	},
	"podconfigd.v1alpha1.PodConfig/WatchContainers": func(ctx context.Context, c *grpc.ClientConn) (func() (proto.Message, error), error) {
		s, err := podconfigd.NewPodConfigClient(c).WatchContainers(ctx, &podconfigd.WatchContainersRequest{Labels: true, Owners: true})
		return func() (proto.Message, error) { return s.Recv() }, err
	},
	"v1alpha1.Pods/WatchPods": func(ctx context.Context, c *grpc.ClientConn) (func() (proto.Message, error), error) {
		s, err := podsv1alpha1.NewPodsClient(c).WatchPods(ctx, &podsv1alpha1.WatchPodsRequest{})
		return func() (proto.Message, error) { return s.Recv() }, err
	},
}

// TestWaysOutByView is the table.
func TestWaysOutByView(t *testing.T) {
	testutil.Exhaustive(t) // TestNoAnswerHasACanary shows the races
	defer klog.CaptureState().Restore()
	var log bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	levels := []access.Level{access.None, access.Metadata, access.Redacted, access.Full}
	if testing.Short() {
		levels = levels[1:2]
	}
	for _, level := range levels {
		dir := t.TempDir()
		s := &sightings{allowed: allowedOf(t, level), seen: make(map[string]map[string]map[string]struct{})}
		if level >= access.Redacted {
			// Of the manifest, in the history; in lookups; and of the owner, in metrics.
			s.texts = []string{"file.path", "device", "metadata.ownerReferences[].name", "metadata.ownerreferences[].kind"}
		}
		for _, start := range []string{"first", "restarted"} {
			t.Run(fmt.Sprint(level, "/", start), func(t *testing.T) {
				w := newWorld(t, dir, level)
				w.await(t, w.journey())
				w.lookAtHistory(t, s)
				w.lookAtHTTP(t, s, start == "restarted")
				w.lookAtGRPC(t, s)
			})
		}
		s.complete(t)
	}
	klog.Flush()
	if texts := canary.Texts(log.String()); len(texts) > 0 {
		t.Errorf("the log has %q", texts)
	}
}

// lookAtHistory looks at all pages.
func (w *world) lookAtHistory(t *testing.T, s *sightings) {
	t.Helper()
	for token, newest := "first", false; token != "" || !newest; {
		if token == "" {
			token, newest = "first", true
		}
		page := new(v1alpha1.History)
		answer, _ := w.answer(t, fmt.Sprintf("/v1alpha1/history?pods=true&newest=%v&continue=%s", newest, strings.TrimPrefix(token, "first")), "")
		if err := json.Unmarshal([]byte(answer), page); err != nil {
			t.Fatalf("%v in %.500s", err, answer)
		}
		s.look(t, "/v1alpha1/history", answer, podsInJSON(t, answer))
		token = page.Continue
	}
	api := podconfigd.NewPodConfigClient(w.grpc(t, w.socket))
	for token, newest := "first", false; token != "" || !newest; {
		if token == "" {
			token, newest = "first", true
		}
		page, err := api.History(t.Context(), &podconfigd.HistoryRequest{Pods: true, Newest: newest, ContinueToken: strings.TrimPrefix(token, "first")})
		if err != nil {
			t.Fatal(err)
		}
		s.message(t, "podconfigd.v1alpha1.PodConfig/History", page)
		token = page.GetContinueToken()
	}
}

// message looks at a message.
func (s *sightings) message(t *testing.T, way string, m proto.Message) string {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	s.look(t, way, string(data), podsInMessage(t, m.ProtoReflect(), ""))
	return string(data)
}

// lookAtHTTP looks at each path, and at a journey of each stream.
func (w *world) lookAtHTTP(t *testing.T, s *sightings, streams bool) {
	t.Helper()
	var all patterns
	w.server.route(&all, false)
	for _, pattern := range all {
		requests := slices.Clone(canaryPaths[pattern]) // one with a slash at the end is the same
		if pattern == "/v1alpha1/updates" && w.resume != "" {
			requests = slices.Insert(requests, 0, w.resume)
		}
		for _, request := range requests {
			if strings.HasPrefix(request, "stream") && !streams {
				continue
			}
			for _, accept := range formsOf(request) {
				answer, rest := w.answer(t, request, accept)
				if rest != nil {
					answer = w.follow(t, rest, strings.Contains(request, "/api/v1/"))
				}
				s.look(t, pattern, answer, slices.Concat(podsInJSON(t, answer), podsInProtobuf(t, answer)))
			}
		}
	}
	for path := range w.server.rest.Posts() {
		for _, query := range postQueries[path] {
			_, answer := w.ask(t, "POST "+path+"?"+query)
			s.look(t, path, answer, nil)
		}
		if len(postQueries[path]) == 0 {
			t.Errorf("POST %s is served, and not tested here", path)
		}
	}
}

// follow reads a stream until the end of a journey, and then until the rules have changed and are the
// same again. The change ends a watch of the Kubernetes API.
func (w *world) follow(t *testing.T, stream io.Reader, ends bool) string {
	t.Helper()
	answer := readUntil(t, stream, w.journey())
	mark := w.narrow()
	if ends {
		end, err := io.ReadAll(stream)
		if err != nil {
			t.Fatal(err)
		}
		w.widen()
		return answer + string(end)
	}
	answer += readUntil(t, stream, mark)
	answer += readUntil(t, stream, w.widen())
	return answer[:strings.LastIndexByte(answer, '\n')+1] // a text that is cut is no text of a field
}

// postQueries are the queries of each path that takes a POST.
var postQueries = map[string][]string{
	"/v1alpha1/resync":  {"namespace=default&name=edited", "namespace=default&name=absent"},
	"/v1alpha1/release": {"source=file"},
}

// lookAtGRPC looks at each call, and at a journey of each stream.
func (w *world) lookAtGRPC(t *testing.T, s *sightings) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	conn := w.grpc(t, w.socket)
	for service, info := range w.server.rpc.NewServer(t.Context(), false).GetServiceInfo() {
		for _, method := range info.Methods {
			name := strings.Replace(service, ".v1alpha.", ".v1.", 1) + "/" + method.Name
			call, journey := canaryCalls[name], journeyCalls[name]
			if call == nil || journey == nil && method.IsServerStream && strings.HasSuffix(service, "v1alpha1.PodConfig") && !method.IsClientStream {
				t.Errorf("%s is served, and not tested here", name)
				continue
			}
			answers, err := call(ctx, conn)
			s.look(t, name, fmt.Sprint(err), nil)
			for _, m := range answers {
				s.message(t, name, m)
			}
			if journey != nil {
				w.followCall(ctx, t, s, name, conn)
			}
		}
	}
	for _, m := range w.callsOfFilledPods(ctx, t, conn) {
		s.message(t, m.way, m.message)
	}
}

// followCall reads a stream until the end of a journey.
func (w *world) followCall(ctx context.Context, t *testing.T, s *sightings, name string, conn *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	receive, err := journeyCalls[name](ctx, conn)
	marks := []func() string{w.journey, w.narrow, w.widen}
	for mark := ""; err == nil; {
		var m proto.Message
		if m, err = receive(); err != nil {
			break
		}
		if answer := s.message(t, name, m); !strings.Contains(answer, mark) {
			continue
		}
		if len(marks) == 0 {
			return
		}
		mark, marks = marks[0](), marks[1:] // at first, when it is subscribed
	}
	t.Errorf("%s: %v", name, err)
}

// namedMessage is the answer to a call.
type namedMessage struct {
	way     string
	message proto.Message
}

// callsOfFilledPods are the calls that name a pod. They find none if the rules hide it.
func (w *world) callsOfFilledPods(ctx context.Context, t *testing.T, conn *grpc.ClientConn) []namedMessage {
	t.Helper()
	api, query := podconfigd.NewPodConfigClient(conn), &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_PodUid{PodUid: "edited"}, Pods: true}
	var all []namedMessage
	if m, err := api.Lookup(ctx, query); err == nil {
		all = append(all, namedMessage{"podconfigd.v1alpha1.PodConfig/Lookup", m})
	}
	calls, err := api.LookupStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := calls.Send(&podconfigd.LookupStreamRequest{Query: query}); err != nil {
		t.Fatal(err)
	}
	if m, err := calls.Recv(); err == nil {
		all = append(all, namedMessage{"podconfigd.v1alpha1.PodConfig/LookupStream", m})
	}
	if m, err := podsv1alpha1.NewPodsClient(conn).GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: "edited"}); err == nil {
		all = append(all, namedMessage{"v1alpha1.Pods/GetPod", m})
	}
	return all
}
