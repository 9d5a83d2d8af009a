package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	pb "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
	"github.com/podconfigd/podconfigd/test/components"
)

// lookupPods is the number of pods of a full node.
const lookupPods = 110

// lookupNode is a daemon with a runtime whose pods are in a directory. Each pod has a sandbox
// that runs, and a container that does not.
type lookupNode struct {
	*podconfigd

	runtime *components.Runtime
	// sandboxes and containers are their IDs.
	sandboxes, containers []string
}

func newLookupNode(tb testing.TB, pods int) *lookupNode {
	tb.Helper()
	n := &lookupNode{runtime: components.StartRuntime(tb, components.Containerd), sandboxes: make([]string, pods), containers: make([]string, pods)}
	dir := newDirectory(tb)
	var wg sync.WaitGroup
	next := make(chan int)
	for range 4 {
		wg.Go(func() {
			for i := range next {
				name := fmt.Sprintf("pod-%04d", i)
				n.sandboxes[i] = n.runtime.Sandbox(tb, name, name)
				n.containers[i] = n.runtime.Create(tb, n.sandboxes[i], name, name, "container-0", "pause")
			}
		})
	}
	for i := range pods {
		name := fmt.Sprintf("pod-%04d", i)
		dir.put(tb, manifest{name: name, version: "1", uid: name})
		next <- i
	}
	close(next)
	wg.Wait()
	n.podconfigd = startPodconfigd(tb, dir, "--container-runtime-endpoint", n.runtime.Socket)
	if err := n.subscribe(tb).untilReady(); err != nil {
		tb.Fatal(err)
	}
	n.settle(tb, pods, true)
	return n
}

// BenchmarkLookup measures lookups by container ID, one after the other on one connection,
// over HTTP, over gRPC, and with pkg/client. With way=stream, up to 64 queries of one call of
// LookupStream are under way, and with way=pipelined as many requests of HTTP. With peer=CRI,
// containerd is asked for the status of the same containers on its CRI socket, which tells the
// pod by the labels of a kubelet; with peer=CRI-concurrent, in 64 calls at a time. cpu-us is the processor time of the daemon, or of containerd,
// for each.
func BenchmarkLookup(b *testing.B) {
	n := newLookupNode(b, lookupPods)
	daemon, runtime := n.process, &process{pid: n.runtime.Pid()}
	for _, way := range []struct {
		name   string
		server *process
		begin  func(b *testing.B, n *lookupNode) func(i int) error
	}{
		{"way=http", daemon, lookupHTTP},
		{"way=client", daemon, lookupClient},
		{"way=grpc", daemon, lookupGRPC},
		{"peer=CRI", runtime, lookupCRI},
	} {
		b.Run(way.name, func(b *testing.B) {
			measureLookups(b, way.server, way.begin(b, n))
		})
	}
	for _, way := range []struct {
		name   string
		server *process
		run    func(b *testing.B, n *lookupNode)
	}{
		{"way=stream", daemon, lookupStream},
		{"way=pipelined", daemon, lookupPipelined},
		{"peer=CRI-concurrent", runtime, lookupCRIConcurrent},
	} {
		b.Run(way.name, func(b *testing.B) {
			before := way.server.cpu(b)
			way.run(b, n)
			b.ReportMetric(float64((way.server.cpu(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-us")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lookups/s")
		})
	}
}

// measureLookups measures lookups one after the other. look has the number of the pod.
func measureLookups(b *testing.B, server *process, look func(i int) error) {
	b.Helper()
	for i := range lookupPods { // warm up
		if err := look(i); err != nil {
			b.Fatal(err)
		}
	}
	var times []time.Duration
	before, i := server.cpu(b), 0
	for b.Loop() {
		begin := peer.Now()
		if err := look(i % lookupPods); err != nil {
			b.Fatal(err)
		}
		times = append(times, peer.Now()-begin)
		i++
	}
	b.ReportMetric(float64((server.cpu(b)-before).Nanoseconds())/1e3/float64(i), "cpu-us")
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-us")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-us")
}

var errOtherPod = errors.New("the answer has another pod")

func lookupHTTP(b *testing.B, n *lookupNode) func(i int) error {
	b.Helper()
	conn, err := net.Dial("unix", n.socket)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	answers := bufio.NewReader(conn)
	return func(i int) error {
		if _, err := io.WriteString(conn, lookupRequest("containerID="+n.containers[i])); err != nil {
			return err
		}
		return readLookup(answers)
	}
}

func lookupRequest(query string) string {
	return "GET /v1alpha1/lookup?" + query + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
}

func readLookup(answers *bufio.Reader) error {
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func lookupClient(b *testing.B, n *lookupNode) func(i int) error {
	b.Helper()
	c := client.New(n.socket)
	b.Cleanup(c.CloseIdleConnections)
	return func(i int) error {
		found, err := c.Lookup(b.Context(), client.LookupQuery{ContainerID: n.containers[i]})
		if err == nil && found.Pods[0].UID != fmt.Sprintf("pod-%04d", i) {
			err = errOtherPod
		}
		return err
	}
}

func (n *lookupNode) grpc(b *testing.B) pb.PodConfigClient {
	b.Helper()
	conn, err := grpc.NewClient("unix://"+n.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return pb.NewPodConfigClient(conn)
}

func lookupGRPC(b *testing.B, n *lookupNode) func(i int) error {
	b.Helper()
	api := n.grpc(b)
	return func(i int) error {
		_, err := api.Lookup(b.Context(), &pb.LookupRequest{Target: &pb.LookupRequest_ContainerId{ContainerId: n.containers[i]}})
		return err
	}
}

func lookupCRI(b *testing.B, n *lookupNode) func(i int) error {
	b.Helper()
	return func(i int) error {
		_, err := n.runtime.CRI.ContainerStatus(b.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: n.containers[i]})
		return err
	}
}

// underWay is the number of queries that are sent before their answers are read.
const underWay = 64

// pipeline calls send and receive as often as the benchmark requires, each in a goroutine.
func pipeline(b *testing.B, send, receive func(i int) error) {
	b.Helper()
	places := make(chan struct{}, underWay)
	sent := make(chan error, 1)
	b.ResetTimer()
	go func() {
		for i := range b.N {
			places <- struct{}{}
			if err := send(i); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range b.N {
		if err := receive(i); err != nil {
			b.Fatal(err)
		}
		<-places
	}
	if err := <-sent; err != nil {
		b.Fatal(err)
	}
}

func lookupStream(b *testing.B, n *lookupNode) {
	b.Helper()
	stream, err := n.grpc(b).LookupStream(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	pipeline(b, func(i int) error {
		return stream.Send(&pb.LookupStreamRequest{Id: uint64(i), Query: &pb.LookupRequest{
			Target: &pb.LookupRequest_ContainerId{ContainerId: n.containers[i%lookupPods]},
		}})
	}, func(i int) error {
		answer, err := stream.Recv()
		if err == nil && (answer.GetId() != uint64(i) || answer.GetAnswer().GetPods()[0].GetUid() != fmt.Sprintf("pod-%04d", i%lookupPods)) {
			err = errOtherPod
		}
		return err
	})
}

func lookupPipelined(b *testing.B, n *lookupNode) {
	b.Helper()
	conn, err := net.Dial("unix", n.socket)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	pipeline(b, func(i int) error {
		_, err := io.WriteString(conn, lookupRequest("containerID="+n.containers[i%lookupPods]))
		return err
	}, func(int) error { return readLookup(answers) })
}

func lookupCRIConcurrent(b *testing.B, n *lookupNode) {
	b.Helper()
	look := lookupCRI(b, n)
	results := make(chan error, underWay)
	pipeline(b, func(i int) error {
		go func() { results <- look(i % lookupPods) }()
		return nil
	}, func(int) error { return <-results })
}

// BenchmarkLookupWait measures the time from the event with which containerd tells another
// client of a new container, until a lookup that waits has the container and its pod. Each op
// is one container. If the daemon gets the event first, the time is that of a lookup.
// third-… is how much later a third client of the runtime has the same event, in the same run.
func BenchmarkLookupWait(b *testing.B) {
	n := newLookupNode(b, 1)
	c := client.New(n.socket)
	b.Cleanup(c.CloseIdleConnections)
	answered := make(chan time.Duration, 1)
	event := createdContainers(b, n.runtime, func(ctx context.Context, id string) {
		found, err := c.Lookup(ctx, client.LookupQuery{ContainerID: id, Wait: 2 * time.Second})
		if err != nil || found.Pods[0].Source == "" || found.Pods[0].Container.State == "" {
			b.Errorf("got %+v, %v", found, err)
		}
		answered <- peer.Now()
	})
	third := createdContainers(b, n.runtime, func(context.Context, string) {})
	var times, late []time.Duration
	for b.Loop() {
		id := n.runtime.Create(b, n.sandboxes[0], "pod-0000", "pod-0000", "container-1", "pause")
		at := <-event
		times, late = append(times, <-answered-at), append(late, max(0, <-third-at))
		n.runtime.RemoveContainer(b, id)
	}
	report(b, times, 50, 99, 100)
	reportAs(b, "third-", late, 50, 99, 100)
}

// createdContainers returns the times at which a client of the runtime has the event of a new
// container. It calls do after each.
func createdContainers(b *testing.B, r *components.Runtime, do func(ctx context.Context, id string)) <-chan time.Duration {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	stream, err := r.CRI.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		b.Fatal(err)
	}
	created := make(chan time.Duration, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT {
				created <- peer.Now()
				do(ctx, e.GetContainerId())
			}
		}
	})
	b.Cleanup(func() { cancel(); wg.Wait() })
	return created
}
