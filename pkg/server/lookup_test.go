package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/backend"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// recorded are the records of a runtime: one container of a pod, and one that was removed.
type recorded struct{}

func (recorded) FindContainer(id string) (pleg.Found, bool) {
	f := pleg.Found{
		UID: "web", Namespace: "default", Name: "web", Since: time.Unix(1e9, 0),
		Container: pleg.Container{ID: id, Name: "app", State: pleg.StateRunning, Attempt: 2},
	}
	if id == "ended" {
		f.Container.State, f.Container.ExitCode, f.Ended = pleg.StateExited, new(int32(3)), time.Unix(1e9, 5).UTC()
	}
	return f, id == "running" || id == "ended"
}

func (recorded) FindPod(types.UID) (pleg.Found, bool) { return pleg.Found{}, false }
func (recorded) FindRemoved(types.UID, string, uint32) (pleg.Found, bool) {
	return pleg.Found{}, false
}
func (recorded) Pod(types.UID) (*pleg.Pod, bool)           { return nil, false }
func (recorded) Await(...string) (<-chan struct{}, func()) { return nil, func() {} }
func (recorded) Behind(time.Time) error                    { return nil }

// containersOf follows a runtime with one container of each pod, by UID. It makes the stream of containers of a server.
type containersOf struct {
	recorded

	pods []types.UID
}

func (c containersOf) Follow(func(pleg.Found)) (present []pleg.Found, stop func()) {
	for _, uid := range c.pods {
		present = append(present, pleg.Found{
			UID: uid, Namespace: "default", Name: string(uid), Started: time.Unix(1e9, 0).UTC(),
			Container: pleg.Container{ID: string(uid) + "-id", Name: string(uid) + "-c", State: pleg.StateRunning},
		})
	}
	return present, func() {}
}

// streamContainers serves the stream of the containers of pods.
func streamContainers(t *testing.T, o *Options, pods ...types.UID) {
	t.Helper()
	o.Containers = containers.New(containers.Options{Runtime: containersOf{pods: pods}, Journal: o.Journal, Lookup: o.Lookup})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- o.Containers.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// serveLookup serves lookups on the records of recorded, and of the pod web.
func serveLookup(t *testing.T, limits conn.Limits) *daemon {
	t.Helper()
	var l *lookup.Lookup
	d := serveWithLimits(t, journal.Options{}, limits, func(o *Options) {
		l = lookup.New(lookup.Options{Journal: o.Journal, Runtime: recorded{}, Owners: func(pod *journal.Pod) []v1alpha1.Owner {
			return []v1alpha1.Owner{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: pod.Object.Name + "-1", UID: "uid", Labels: map[string]string{"a": "b"}},
				{APIVersion: "apps/v1", Kind: "Deployment", Name: pod.Object.Name},
			}
		}, Devices: devicesOf("web", "gpu-0")})
		o.Lookup = l
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	d.journal.PutNamespaces([]*metav1.ObjectMeta{{Name: "default", Labels: map[string]string{"team": "a"}}})
	d.journal.PutNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Annotations: map[string]string{"zone": "b"}}})
	d.web(config.ADD, "10.0.0.1")
	return d
}

// devicesOf returns a table in which a pod has everything that a kubelet can assign: the device other, and those with a name.
func devicesOf(uid types.UID, name string) func() *devices.Table {
	pod := devices.Pod{NamespacedName: types.NamespacedName{Namespace: "default", Name: string(uid)}, UID: uid}
	table := devices.NewTable(time.Now(), map[devices.Pod][]v1alpha1.ContainerResources{pod: {{
		Container: "app",
		Devices:   []v1alpha1.Devices{{Resource: "example.com/gpu", IDs: []string{"other", name}, NUMA: []int64{1}}},
		CPUs:      []int64{2, 3},
		Memory:    []v1alpha1.MemoryBlock{{Type: "hugepages-1Gi", Size: 1 << 30, NUMA: []int64{0}}},
		DynamicResources: []v1alpha1.ClaimedDevices{{Claim: name, Devices: []v1alpha1.ClaimedDevice{
			{Driver: "gpu.example.com", Pool: "node1", Device: name, ShareID: "s", CDI: []string{"example.com/gpu=" + name}},
		}}},
	}}})
	return func() *devices.Table { return table }
}

// web delivers the pod web with an IP.
func (d *daemon) web(op config.PodOperation, ip string) {
	p := podWith("web", "x")
	p.Status = v1.PodStatus{Phase: v1.PodRunning, PodIP: ip, PodIPs: []v1.PodIP{{IP: ip}, {IP: "fd00::1"}}}
	d.journal.Append(config.PodUpdate{Op: op, Source: "file", Pods: []*v1.Pod{p}})
}

func (d *daemon) lookup(t *testing.T, query string) *v1alpha1.Lookup {
	t.Helper()
	code, body := d.get(t, "/v1alpha1/lookup?"+query)
	answer := new(v1alpha1.Lookup)
	if err := json.Unmarshal([]byte(body), answer); err != nil || code != http.StatusOK {
		t.Fatalf("%s: %d %s: %v", query, code, body, err)
	}
	return answer
}

// numbers matches numbers of 64 bits, which protobuf's JSON has as strings.
var numbers = regexp.MustCompile(`"([0-9]+)"`)

// gRPC returns what HTTP returns.
func TestLookup(t *testing.T) {
	d := serveLookup(t, conn.Limits{})
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	for query, request := range map[string]*podconfigd.LookupRequest{
		"containerID=running":   {Target: &podconfigd.LookupRequest_ContainerId{ContainerId: "running"}},
		"containerID=x://ended": {Target: &podconfigd.LookupRequest_ContainerId{ContainerId: "ended"}},
		"podUID=web&wait=1m":    {Target: &podconfigd.LookupRequest_PodUid{PodUid: "web"}, Wait: durationpb.New(time.Minute)},
		"podIP=fd00:0::1":       {Target: &podconfigd.LookupRequest_PodIp{PodIp: "fd00:0::1"}},
		"logPath=/var/log/pods/default_web_web/app/0.log": {
			Target: &podconfigd.LookupRequest_LogPath{LogPath: "/var/log/pods/default_web_web/app/0.log"},
		},
		"podUID=web&namespaceLabels=true&nodeLabels=true": {
			Target: &podconfigd.LookupRequest_PodUid{PodUid: "web"}, NamespaceLabels: true, NodeLabels: true,
		},
		"device=example.com/gpu:gpu-0": {Target: &podconfigd.LookupRequest_Device{Device: "example.com/gpu:gpu-0"}},
		"cgroup=/kubepods/podweb/x":    {Target: &podconfigd.LookupRequest_Cgroup{Cgroup: "/kubepods/podweb/x"}},
	} {
		t.Run(query, func(t *testing.T) {
			want := d.lookup(t, query)
			response, err := api.Lookup(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			data, err := protojson.Marshal(response)
			if err != nil {
				t.Fatal(err)
			}
			got := new(v1alpha1.Lookup)
			if err := json.Unmarshal(numbers.ReplaceAll(data, []byte("$1")), got); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			if diff := cmp.Diff(want, got); diff != "" || len(want.Pods) != 1 || want.Pods[0].Name != "web" || len(want.Pods[0].Owners) != 2 || len(want.Pods[0].Resources) != 1 {
				t.Errorf("%s: %s", query, diff)
			}
		})
	}
	answer := d.lookup(t, "podUID=web&namespaceLabels=true&nodeLabels=true")
	if answer.Namespaces["default"].Labels["team"] != "a" || answer.Node.Annotations["zone"] != "b" {
		t.Errorf("got %+v, %+v", answer.Namespaces, answer.Node)
	}
	if answer = d.lookup(t, "podUID=web"); answer.Namespaces != nil || answer.Node != nil {
		t.Errorf("not requested: got %+v, %+v", answer.Namespaces, answer.Node)
	}
	var whole v1.Pod
	response, err := api.Lookup(t.Context(), &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_PodUid{PodUid: "web"}, Pods: true})
	if err != nil || whole.Unmarshal(response.GetPods()[0].GetPod()) != nil || whole.Status.PodIP != "10.0.0.1" {
		t.Errorf("got %v, %v", response, err)
	}
	if p := d.lookup(t, "podUID=web&pods=true").Pods[0].Pod; p == nil || p.Status.PodIP != "10.0.0.1" {
		t.Errorf("got %+v", p)
	}
}

// The namespaces of the host have no pods of their own.
func TestLookupOfTheHost(t *testing.T) {
	own, err := os.Readlink("/proc/1/ns/net")
	if err != nil {
		t.Skip(err)
	}
	inode, err := strconv.ParseUint(strings.Trim(own, "net:[]"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	d := serveLookup(t, conn.Limits{})
	want := v1alpha1.LookupHost{Namespace: "netns"}
	if answer := d.lookup(t, fmt.Sprint("netns=", inode)); answer.Host == nil || *answer.Host != want || answer.Pods == nil || len(answer.Pods) > 0 {
		t.Errorf("got %+v", answer)
	}
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	response, err := api.Lookup(t.Context(), &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_Netns{Netns: inode}})
	if err != nil || response.GetHost().GetNamespace() != want.Namespace || len(response.GetPods()) > 0 {
		t.Errorf("got %v, %v", response, err)
	}
}

// A client on a unix socket can ask for itself. This test runs in no container of the runtime.
func TestLookupOfTheClient(t *testing.T) {
	d, address := serveLocal(t, conn.Limits{}, func(o *Options) {
		o.Lookup = lookup.New(lookup.Options{Journal: o.Journal, Runtime: recorded{}})
	})
	want := fmt.Sprintf("looking up the client, process %d: ", os.Getpid())
	if code, body := d.get(t, "/v1alpha1/lookup?self=true"); code != http.StatusNotFound || !strings.Contains(body, want) {
		t.Errorf("on the socket: %d %s", code, body)
	}
	if code, body := d.get(t, "/v1alpha1/lookup?self=true&pid=1"); code != http.StatusBadRequest || !strings.Contains(body, "expected only one of them") {
		t.Errorf("with a PID: %d %s", code, body)
	}
	query := &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_Self{Self: true}}
	_, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Lookup(t.Context(), query)
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), want) {
		t.Errorf("over gRPC: %v", err)
	}
	resp, err := http.Get("http://" + address + "/v1alpha1/lookup?self=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "ask on the unix socket") {
		t.Errorf("over TCP: %s %s, %v", resp.Status, body, err)
	}
}

func TestParametersOfLookup(t *testing.T) {
	d := serveLookup(t, conn.Limits{})
	for query, want := range map[string]string{
		"":                                       "expected one of containerID, podUID, podIP, pid, cgroup, cgroupID, netns, mntns, pidns, cgroupns, logPath, device and self",
		"podUID=":                                "expected one of containerID, podUID, podIP, pid, cgroup, cgroupID, netns, mntns, pidns, cgroupns, logPath, device and self",
		"name=web":                               `unknown parameter "name": expected one of containerID, podUID, podIP, pid, cgroup, cgroupID, netns, mntns, pidns, cgroupns, logPath, device, self, startTime, at, wait, pods`,
		"podUID=a&podUID=b":                      `parameter "podUID": given 2 times`,
		"containerID=a&pid=1":                    `parameter "pid": containerID is given too: expected only one of them`,
		"containerID=../a":                       `parameter "containerID": "../a" is not a container ID: expected`,
		"containerID=containerd://":              `parameter "containerID": "containerd://" is not a container ID: expected`,
		"podUID=" + strings.Repeat("x", 254):     `parameter "podUID": "` + strings.Repeat("x", 100) + `…" is not a UID: expected at most 253 characters`,
		"podIP=10.0.0":                           `parameter "podIP": "10.0.0" is not an IP address: expected`,
		"podIP=fe80::1%25eth0":                   `parameter "podIP": "fe80::1%eth0" is not an IP address`,
		"cgroup=" + strings.Repeat("x", 4097):    `parameter "cgroup": expected at most 4096 characters, got 4097`,
		"netns=net:[4026531840]":                 `parameter "netns": "net:[4026531840]" is not an ID: expected 1 to 18446744073709551615`,
		"cgroupID=0":                             `parameter "cgroupID": "0" is not an ID: expected`,
		"mntns=1&pidns=-1":                       `parameter "pidns": mntns is given too: expected only one of them`,
		"logPath=/var/log/syslog":                `parameter "logPath": "/var/log/syslog" is not the log of a container: expected /var/log/pods/NAMESPACE_NAME_UID/CONTAINER/NUMBER.log, or a link in /var/log/containers`,
		"podUID=web&startTime=1":                 `parameter "startTime": requires pid`,
		"pid=1&startTime=-1":                     `parameter "startTime": "-1" is not a start time: expected field 22 of /proc/PID/stat`,
		"podIP=10.0.0.1&at=soon":                 `parameter "at": "soon" is not a time that has passed: expected for example -10m or 2026-01-02T15:04:05Z`,
		"podIP=10.0.0.1&at=10m":                  `parameter "at": "10m" is not a time that has passed`,
		"podIP=10.0.0.1&at=9999-01-01T00:00:00Z": `parameter "at": "9999-01-01T00:00:00Z" is not a time that has passed`,
		"podUID=web&at=-10m":                     `parameter "at": requires podIP or pid`,
		"podUID=web&wait=soon":                   `parameter "wait": "soon" is not a wait: expected 0s to 1m0s`,
		"podUID=web&pods=some":                   `parameter "pods": expected true or false, got "some"`,
		"podIP=x&pid=x":                          "parameter \"pid\": \"x\" is not a PID: expected 1 to 2147483647\nparameter \"podIP\": \"x\" is not",
	} {
		t.Run(fmt.Sprintf("%.60s", query), func(t *testing.T) {
			code, body := d.get(t, "/v1alpha1/lookup?"+query)
			var s metav1.Status
			if err := json.Unmarshal([]byte(body), &s); err != nil || code != http.StatusBadRequest || s.Reason != metav1.StatusReasonBadRequest || !strings.Contains(s.Message, want) {
				t.Errorf("%s: %d %s, want %s", query, code, s.Message, want)
			}
		})
	}
	for query, want := range map[string]struct {
		code   int
		reason metav1.StatusReason
	}{
		"containerID=none": {http.StatusNotFound, metav1.StatusReasonNotFound},
		"pid=2147483647":   {http.StatusNotFound, metav1.StatusReasonNotFound},
	} {
		t.Run(query, func(t *testing.T) {
			code, body := d.get(t, "/v1alpha1/lookup?"+query)
			var s metav1.Status
			if err := json.Unmarshal([]byte(body), &s); err != nil || code != want.code || s.Reason != want.reason || !strings.HasPrefix(s.Message, "looking up ") {
				t.Errorf("%s: %d %s, want %d", query, code, body, want.code)
			}
		})
	}
	if code, body := serveJournal(t, journal.Options{}).get(t, "/v1alpha1/lookup?podUID=web"); code != http.StatusServiceUnavailable || !strings.Contains(body, backend.ErrNoLookup.Error()) {
		t.Errorf("%d %s", code, body)
	}
}

// Any possible number is accepted, or the error names it.
func TestNumbersOfLookup(t *testing.T) {
	d := serveLookup(t, conn.Limits{})
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	try := func(query, field string, taken bool, request *podconfigd.LookupRequest) {
		t.Helper()
		code, body := d.get(t, "/v1alpha1/lookup?"+query)
		if taken != (code != http.StatusBadRequest) || !taken && !strings.Contains(body, field) {
			t.Errorf("%s: %d %s", query, code, body)
		}
		if request == nil {
			return
		}
		_, err := api.Lookup(t.Context(), request)
		if refused := status.Code(err) == codes.InvalidArgument; taken == refused || refused && !strings.Contains(err.Error(), field) {
			t.Errorf("%v: %v", request, err)
		}
	}
	for pid, taken := range map[int64]bool{-1: false, 1: true, 2147483647: true, -2147483648: false} {
		try(fmt.Sprint("pid=", pid), "pid", taken, &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_Pid{Pid: int32(pid)}})
	}
	for _, pid := range []string{"0", "2147483648", "9223372036854775807", "9223372036854775808", "1e308", "1.5"} {
		try("pid="+pid, "pid", false, nil)
	}
	for start, taken := range map[uint64]bool{0: true, 1: true, 18446744073709551615: true} {
		try(fmt.Sprint("pid=1&startTime=", start), "start", taken, &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_Pid{Pid: 1}, StartTime: start})
	}
	for _, start := range []string{"18446744073709551616", "-1", "1e308"} {
		try("pid=1&startTime="+start, "startTime", false, nil)
	}
	for _, id := range []uint64{1, 18446744073709551615} {
		try(fmt.Sprint("cgroupID=", id), "cgroup", true, &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_CgroupId{CgroupId: id}})
		try(fmt.Sprint("netns=", id), "netns", true, &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_Netns{Netns: id}})
		try(fmt.Sprint("mntns=", id), "mntns", true, &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_Mntns{Mntns: id}})
		try(fmt.Sprint("pidns=", id), "pidns", true, &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_Pidns{Pidns: id}})
		try(fmt.Sprint("cgroupns=", id), "cgroupns", true, &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_Cgroupns{Cgroupns: id}})
	}
	for _, id := range []string{"0", "18446744073709551616", "-1", "1e308", "1.5"} {
		for _, name := range []string{"cgroupID", "netns", "mntns", "pidns", "cgroupns"} {
			try(name+"="+id, name, false, nil)
		}
	}
	for wait, taken := range map[time.Duration]bool{0: true, 1: true, time.Minute: true, time.Minute + 1: false, -1: false, 1<<63 - 1: false} {
		try(fmt.Sprint("podUID=web&wait=", url.QueryEscape(wait.String())), "wait", taken, &podconfigd.LookupRequest{
			Target: &podconfigd.LookupRequest_PodUid{PodUid: "web"}, Wait: durationpb.New(wait),
		})
	}
	for at, taken := range map[time.Time]bool{
		{}: false, time.Time{}.Add(1): true, time.Unix(0, 0): true, time.Now().Add(-time.Second): true, time.Now().Add(time.Hour): false,
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC): false,
	} {
		try("podIP=10.0.0.1&at="+at.UTC().Format(time.RFC3339Nano), "at", taken, &podconfigd.LookupRequest{
			Target: &podconfigd.LookupRequest_PodIp{PodIp: "10.0.0.1"}, At: timestamppb.New(at),
		})
	}
	for _, wait := range []string{"2562048h", "1", "1e308s", "-1m"} {
		try("podUID=web&wait="+wait, "wait", false, nil)
	}
	for _, wait := range []*durationpb.Duration{{Seconds: 1 << 62}, {Nanos: -1}, {Nanos: 1 << 30}, {Seconds: 1, Nanos: -1}} {
		_, err := api.Lookup(t.Context(), &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_PodUid{PodUid: "web"}, Wait: wait})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "wait: ") {
			t.Errorf("%v: %v", wait, err)
		}
	}
}

// A query that waits delays neither the stream nor other queries. Each answer has the ID of
// its query.
func TestLookupStream(t *testing.T) {
	d := serveLookup(t, conn.Limits{Subscribers: 2, SubscribersPerPeer: 2})
	stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).LookupStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(id uint64, ip string, wait time.Duration) {
		t.Helper()
		query := &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_PodIp{PodIp: ip}}
		if wait > 0 {
			query.Wait = durationpb.New(wait)
		}
		if err := stream.Send(&podconfigd.LookupStreamRequest{Id: id, Query: query}); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(want string) {
		t.Helper()
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(answer.GetId(), " ", answer.GetAnswer().GetPods())
		if e := answer.GetError(); e != nil {
			got = fmt.Sprint(answer.GetId(), " ", codes.Code(e.GetCode()), " ", e.GetMessage())
		} else if pods := answer.GetAnswer().GetPods(); len(pods) == 1 {
			got = fmt.Sprint(answer.GetId(), " ", pods[0].GetName())
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	ask(1, "10.0.0.2", time.Minute)
	ask(2, "10.0.0.1", 0)
	answered("2 web")
	ask(3, "10.0.0.9", 0)
	answered("3 NotFound looking up pod IP 10.0.0.9: no pod has it")
	ask(4, "10.0.0.1", 2*time.Minute)
	answered("4 InvalidArgument wait: 2m0s is not a wait: expected 0s to 1m0s")
	ask(5, "10.0.0.8", time.Minute)
	ask(6, "10.0.0.7", time.Minute)
	answered(fmt.Sprintf("6 ResourceExhausted too many lookups that wait: process %d has 2, and no more are allowed to one", os.Getpid()))
	code, body := d.get(t, "/v1alpha1/lookup?podIP=10.0.0.7&wait=1m")
	refused(t, code, body, "too many lookups that wait")
	d.web(config.RECONCILE, "10.0.0.2")
	answered("1 web")
	d.web(config.RECONCILE, "10.0.0.8")
	answered("5 web")
	ask(7, "10.0.0.8", 0)
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	answered("7 web")
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	d.free(t)
}

// The wait of a client that leaves ends, and so does its place.
func TestLookupOfAClientThatLeaves(t *testing.T) {
	d := serveLookup(t, conn.Limits{Subscribers: 1, SubscribersPerPeer: 1, Connections: 20, ConnectionsPerPeer: 20})
	for _, leave := range []func(){
		func() {
			conn := d.dial(t)
			request(t, conn, "/v1alpha1/lookup?podIP=10.0.0.9&wait=1m", "")
			d.waits(t, 1)
			_ = conn.Close()
		},
		func() {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
			go func() {
				_, err := api.Lookup(ctx, &podconfigd.LookupRequest{
					Target: &podconfigd.LookupRequest_PodIp{PodIp: "10.0.0.9"}, Wait: durationpb.New(time.Minute),
				})
				done <- err
			}()
			d.waits(t, 1)
			cancel()
			if err := <-done; status.Code(err) != codes.Canceled {
				t.Errorf("got %v", err)
			}
		},
		func() {
			ctx, cancel := context.WithCancel(t.Context())
			stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).LookupStream(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&podconfigd.LookupStreamRequest{Query: &podconfigd.LookupRequest{
				Target: &podconfigd.LookupRequest_PodIp{PodIp: "10.0.0.9"}, Wait: durationpb.New(time.Minute),
			}}); err != nil {
				t.Fatal(err)
			}
			d.waits(t, 1)
			cancel()
		},
	} {
		leave()
		d.waits(t, 0)
	}
}

// waits waits until so many lookups wait.
func (d *daemon) waits(t *testing.T, n int) {
	t.Helper()
	testutil.Until(t, fmt.Sprint(n, " lookups wait"), func() bool {
		return d.limits.Sockets.Waits.InUse() == n
	})
}

// When the server stops, waits end. The cleanup of serveLookup checks the time.
func TestLookupWhenTheServerStops(t *testing.T) {
	d := serveLookup(t, conn.Limits{})
	request(t, d.dial(t), "/v1alpha1/lookup?podIP=10.0.0.9&wait=1m", "")
	stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).LookupStream(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&podconfigd.LookupStreamRequest{Id: 1, Query: &podconfigd.LookupRequest{
		Target: &podconfigd.LookupRequest_PodIp{PodIp: "10.0.0.9"}, Wait: durationpb.New(time.Minute),
	}}); err != nil {
		t.Fatal(err)
	}
}
