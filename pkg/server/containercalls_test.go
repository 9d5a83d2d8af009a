package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// gRPC has the same containers, and sends the same changes of them, as HTTP.
func TestContainersOverGRPC(t *testing.T) {
	sandbox := ofPod("orphan", "c2", pleg.StateExited)
	sandbox.Container.Sandbox = true
	r := newFollowed(ofPod("web", "c1", pleg.StateCreated), sandbox)
	d := serveContainers(t, r, conn.Limits{})
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	var all []*containerStreams
	var list *podconfigd.ListContainersResponse
	for query, request := range map[string]*podconfigd.WatchContainersRequest{
		"labels=true&owners=true":                                           {Labels: true, Owners: true},
		"source=file&owner=deployment/web":                                  {Selector: &podconfigd.PodSelector{Source: "file", Owner: "deployment/web"}},
		"namespace=default&labelSelector=app%3Dx&labels=true":               {Labels: true, Selector: &podconfigd.PodSelector{Namespace: "default", LabelSelector: "app=x"}},
		"fieldSelector=metadata.name%3Dweb,metadata.uid%3Dweb&owners=false": {Selector: &podconfigd.PodSelector{FieldSelector: "metadata.name=web,metadata.uid=web"}},
		"": {},
	} {
		s := d.bothStreams(t, query, request)
		s.until(t, isComplete)
		all = append(all, s)
		want := new(v1alpha1.Containers)
		code, body := d.get(t, "/v1alpha1/containers?"+query)
		if err := json.Unmarshal([]byte(body), want); err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %s", query, code, body)
		}
		var err error
		list, err = api.ListContainers(t.Context(), &podconfigd.ListContainersRequest{
			Selector: request.GetSelector(), Labels: request.GetLabels(), Owners: request.GetOwners(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, containerList(t, list)); diff != "" {
			t.Errorf("%s: lists over HTTP (-) and gRPC (+) differ: %s", query, diff)
		}
	}
	reset := d.bothStreams(t, "instance=other&since=3", &podconfigd.WatchContainersRequest{Instance: "other", Since: new(int64(3))})
	reset.until(t, func(u *v1alpha1.ContainerUpdate) bool { return u.Reset })
	reset.until(t, isComplete)
	all = append(all, reset, d.bothStreams(t, fmt.Sprintf("instance=%s&since=%d", list.GetInstance(), list.GetRevision()), &podconfigd.WatchContainersRequest{
		Instance: list.GetInstance(), Since: &list.Revision,
	}))

	r.record(ofPod("web", "c1", pleg.StateRunning))
	for _, s := range all {
		s.until(t, hasProcess)
	}
	ended := ofPod("web", "c1", pleg.StateExited)
	ended.Container.ExitCode = new(int32(3))
	r.record(ended)
	ended.Ended = time.Unix(1e9, 8)
	r.record(ended)
	for _, s := range all {
		s.until(t, isRemoval)
	}
	d.server.SetPolicy(access.NewPolicy([]access.Rule{{View: access.Metadata}}))
	for _, s := range all {
		s.until(t, func(u *v1alpha1.ContainerUpdate) bool { return u.Reset })
		s.until(t, isComplete)
	}
}

func TestCallsForContainersSayWhatIsWrong(t *testing.T) {
	check := func(t *testing.T, d *daemon, request *podconfigd.WatchContainersRequest, code codes.Code, want string) {
		t.Helper()
		api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
		stream, err := api.WatchContainers(t.Context(), request)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != code || !strings.Contains(err.Error(), want) {
			t.Errorf("WatchContainers: %v, want %v %s", err, code, want)
		}
		if request.Since != nil || request.GetInstance() != "" {
			return
		}
		_, err = api.ListContainers(t.Context(), &podconfigd.ListContainersRequest{
			Selector: request.GetSelector(), Labels: request.GetLabels(), Owners: request.GetOwners(),
		})
		if status.Code(err) != code || !strings.Contains(err.Error(), want) {
			t.Errorf("ListContainers: %v, want %v %s", err, code, want)
		}
	}
	without := serveJournal(t, journal.Options{})
	for want, request := range map[string]*podconfigd.WatchContainersRequest{
		"since: -1 is not a revision":                   {Since: new(int64(-1))},
		"since: -9223372036854775808 is not a revision": {Since: new(int64(math.MinInt64))},
		"instance: requires since":                      {Instance: "i"},
		`selector.source: unknown source "apiserver"`:   {Selector: &podconfigd.PodSelector{Source: "apiserver"}},
		"selector.label_selector: ":                     {Selector: &podconfigd.PodSelector{LabelSelector: "=="}},
		"selector.field_selector: field label not supported: spec.nodeName; supported are metadata.name, ": {
			Selector: &podconfigd.PodSelector{FieldSelector: "spec.nodeName=a"},
		},
		"selector.no_mirror_pods: not supported": {Selector: &podconfigd.PodSelector{NoMirrorPods: true}},
		"podconfigd does not know the owners":    {Owners: true},
	} {
		t.Run(want, func(t *testing.T) { check(t, without, request, codes.InvalidArgument, want) })
	}
	check(t, without, &podconfigd.WatchContainersRequest{}, codes.Unimplemented, containers.ErrNoRuntime.Error())

	r := newFollowed()
	r.behind = errors.New("it does not answer")
	unlisted := serveContainers(t, r, conn.Limits{})
	_, err := podconfigd.NewPodConfigClient(unlisted.grpc(t, unlisted.socket)).ListContainers(t.Context(), nil)
	if want := "the container runtime has not been listed yet"; status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), want) {
		t.Errorf("before the first list: %v", err)
	}
}

// A stream of containers counts as a subscriber, and a list of them as a list.
func TestCallsForContainersAreLimited(t *testing.T) {
	d := serveContainers(t, newFollowed(), conn.Limits{Subscribers: 1, Lists: 1})
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	watch := func() error {
		stream, err := api.WatchContainers(t.Context(), nil)
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := watch(); err != nil {
		t.Fatal(err)
	}
	if err := watch(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "too many subscribers") {
		t.Errorf("a second stream: %v", err)
	}
	if _, err := api.ListContainers(t.Context(), nil); err != nil {
		t.Errorf("a list: %v", err)
	}
	release, refusal := d.limits.List(t.Context())
	if refusal != nil {
		t.Fatal(refusal)
	}
	defer release()
	if _, err := api.ListContainers(t.Context(), nil); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "too many lists") {
		t.Errorf("a second list: %v", err)
	}
}
