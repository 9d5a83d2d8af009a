package server

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// followed is a runtime of which a test records the containers.
type followed struct {
	mu        sync.Mutex
	present   map[string]pleg.Found
	followers map[*func(pleg.Found)]bool
	behind    error
}

func newFollowed(present ...pleg.Found) *followed {
	f := &followed{present: make(map[string]pleg.Found), followers: make(map[*func(pleg.Found)]bool)}
	for _, c := range present {
		f.record(c)
	}
	return f
}

func (f *followed) Follow(changed func(pleg.Found)) (present []pleg.Found, stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers[&changed] = true
	return slices.Collect(maps.Values(f.present)), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.followers, &changed)
	}
}

func (f *followed) Behind(time.Time) error { return f.behind }

// record records a change of a container.
func (f *followed) record(c pleg.Found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present[c.Container.ID] = c
	if !c.Ended.IsZero() {
		delete(f.present, c.Container.ID)
	}
	for changed := range f.followers {
		(*changed)(c)
	}
}

// ofPod returns a container of a pod of the namespace default.
func ofPod(uid types.UID, id string, state pleg.State) pleg.Found {
	return pleg.Found{UID: uid, Namespace: "default", Name: string(uid), Started: time.Unix(1e9, 7), Container: pleg.Container{
		ID: id, Name: "app", State: state, Attempt: 2, SandboxID: "s",
	}}
}

// withHandles knows the processes of all containers.
type withHandles struct{ *lookup.Lookup }

func (withHandles) AddHandles(_ context.Context, c *v1alpha1.LookupContainer, _ time.Time) (bool, error) {
	c.PID, c.StartTime, c.Cgroup, c.CgroupID = 42, math.MaxUint64, "/kubepods/x", math.MaxUint64-1
	c.NetNS, c.MntNS, c.PidNS, c.CgroupNS = 4, 5, 6, 7
	return true, nil
}

// serveContainers serves the containers of a runtime, and the pod web with an owner and devices.
func serveContainers(t *testing.T, r containers.Runtime, limits conn.Limits) *daemon {
	t.Helper()
	d := serveWithLimits(t, journal.Options{}, limits, func(o *Options) {
		o.Owners = true
		find := lookup.New(lookup.Options{Journal: o.Journal, Devices: devicesOf("web", "gpu-0")})
		o.Containers = containers.New(containers.Options{Runtime: r, Journal: o.Journal, Lookup: withHandles{find}})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- o.Containers.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
	})
	d.journal.SetOwners(func(pod *journal.Pod) []v1alpha1.Owner {
		return []v1alpha1.Owner{{APIVersion: "apps/v1", Kind: "Deployment", Name: pod.Object.Name, UID: "uid", Labels: map[string]string{"a": "b"}}}
	})
	d.web(config.ADD, "10.0.0.1")
	return d
}

// containerLines reads the stream of containers over HTTP.
func (d *daemon) containerLines(t *testing.T, query string) func() *v1alpha1.ContainerUpdate {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1alpha1/containers?watch=true&"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return func() *v1alpha1.ContainerUpdate {
		t.Helper()
		u := new(v1alpha1.ContainerUpdate)
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), u) != nil {
			t.Fatalf("%s: %s, %v", query, lines.Text(), lines.Err())
		}
		return u
	}
}

// containerMessage is a container in the JSON of protobuf, which has its fields one level deeper.
type containerMessage struct {
	Container v1alpha1.LookupContainer
	Pod       v1alpha1.ContainerPod
	Resources *v1alpha1.ContainerResources
}

func (c *containerMessage) line() *v1alpha1.PodContainer {
	if c == nil {
		return nil
	}
	return &v1alpha1.PodContainer{LookupContainer: c.Container, Pod: c.Pod, Resources: c.Resources}
}

// readMessage reads the JSON of a message.
func readMessage(t *testing.T, m proto.Message, into any) {
	t.Helper()
	data, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(numbers.ReplaceAll(data, []byte("$1")), into); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

func containerLine(t *testing.T, m *podconfigd.WatchContainersResponse) *v1alpha1.ContainerUpdate {
	t.Helper()
	var u struct {
		v1alpha1.ContainerUpdate
		Container *containerMessage `json:"container"`
	}
	readMessage(t, m, &u)
	u.ContainerUpdate.Container = u.Container.line()
	u.Op = v1alpha1.Op(strings.TrimPrefix(string(u.Op), "OPERATION_"))
	return &u.ContainerUpdate
}

func containerList(t *testing.T, m *podconfigd.ListContainersResponse) *v1alpha1.Containers {
	t.Helper()
	var message struct {
		Instance   string
		Revision   int64
		Containers []*containerMessage
	}
	readMessage(t, m, &message)
	list := &v1alpha1.Containers{Instance: message.Instance, Revision: message.Revision}
	for _, c := range message.Containers {
		list.Containers = append(list.Containers, *c.line())
	}
	return list
}

// containerStreams are the same stream over HTTP and gRPC.
type containerStreams struct {
	query string
	line  func() *v1alpha1.ContainerUpdate
	recv  func() (*podconfigd.WatchContainersResponse, error)
}

func (d *daemon) bothStreams(t *testing.T, query string, request *podconfigd.WatchContainersRequest) *containerStreams {
	t.Helper()
	stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).WatchContainers(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return &containerStreams{query, d.containerLines(t, query), stream.Recv}
}

// until compares the next updates of both streams, up to the one for which last is true.
func (s *containerStreams) until(t *testing.T, last func(*v1alpha1.ContainerUpdate) bool) {
	t.Helper()
	for {
		m, err := s.recv()
		if err != nil {
			t.Fatalf("%s: %v", s.query, err)
		}
		want := s.line()
		if diff := cmp.Diff(want, containerLine(t, m), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: line (-) and message (+) differ: %s", s.query, diff)
		}
		if last(want) {
			return
		}
	}
}

func isComplete(u *v1alpha1.ContainerUpdate) bool { return u.InitialSyncComplete }
func isRemoval(u *v1alpha1.ContainerUpdate) bool  { return u.Op == v1alpha1.OpRemove }
func hasProcess(u *v1alpha1.ContainerUpdate) bool { return u.Container != nil && u.Container.PID != 0 }
