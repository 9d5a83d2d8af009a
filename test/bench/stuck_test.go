package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// Stuck subscribers request a stream and read nothing.
const (
	stuckSubscribers = 1000
	stuckPods        = 110
)

// BenchmarkStuckSubscribers measures the memory of the daemon's side for a thousand
// subscribers that read nothing. They start at different times, while all pods change
// repeatedly. The result is the growth of heap and stacks since before they started, with
// a full ring. The other end of each connection takes a few kB of it.
func BenchmarkStuckSubscribers(b *testing.B) {
	for _, protocol := range []struct {
		name string
		ask  []byte
	}{
		{"ndjson", get("/v1alpha1/updates")},
		{"ndjson-snapshot", get("/v1alpha1/updates?mode=snapshot")},
		{"kubernetes", get("/api/v1/pods?watch=true")},
		{"grpc", call(b, "/podconfigd.v1alpha1.PodConfig/Watch")},
		{"pods-api", call(b, "/v1alpha1.Pods/WatchPods")},
	} {
		b.Run(protocol.name, func(b *testing.B) {
			for b.Loop() {
				heap, stacks := stuckBytes(b, protocol.ask)
				b.ReportMetric(float64(heap)/(1<<20), "heap-MiB")
				b.ReportMetric(float64(stacks)/(1<<20), "stacks-MiB")
			}
			b.ReportMetric(0, "ns/op") // it is not what is measured
		})
	}
}

func get(path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
}

// call returns the bytes of a gRPC client that makes a call with an empty message and
// reads nothing. Its window is so large that only the socket limits what the daemon
// sends.
func call(tb testing.TB, method string) []byte {
	tb.Helper()
	var header, out bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			tb.Fatal(err)
		}
	}
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, nil)
	for _, err := range []error{
		framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}),
		framer.WriteWindowUpdate(0, 1<<31-1-65535),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true}),
		framer.WriteData(1, true, make([]byte, 5)),
	} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	return out.Bytes()
}

func stuckBytes(b *testing.B, ask []byte) (heap, stacks int64) {
	b.Helper()
	socket := filepath.Join(b.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(b.Context(), "unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	updates := journal.New(journal.Options{Sources: []string{config.FileSource}})
	serial := 0
	change := func(op config.PodOperation) {
		pods := make([]*v1.Pod, stuckPods)
		for i := range pods {
			serial++
			pods[i] = benchPod(i)
			pods[i].Annotations["serial"] = fmt.Sprint(serial)
		}
		updates.Append(config.PodUpdate{Op: op, Source: config.FileSource, Pods: pods})
	}
	change(config.ADD)
	s := server.New(server.Options{Journal: updates, Limits: conn.Limits{Subscribers: 2 * stuckSubscribers, SubscribersPerPeer: 2 * stuckSubscribers}})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	defer func() { cancel(); <-done }()
	fill := func() {
		for range 40 { // 40 times 110 versions exceed the ring
			change(config.UPDATE)
		}
	}
	reading := subscribe(b, socket, ask) // its stream causes the encoding of the ring
	defer reading.Close()
	go func() { _, _ = io.Copy(io.Discard, reading) }()
	for range 5 {
		fill()
		pause(b, 50*time.Millisecond)
	}
	heapBefore, stacksBefore := memory()
	var stuck []net.Conn
	defer func() {
		for _, conn := range stuck {
			_ = conn.Close()
		}
	}()
	for i := range stuckSubscribers {
		stuck = append(stuck, subscribe(b, socket, ask))
		if i%10 == 9 {
			change(config.UPDATE)
		}
	}
	for range 60 { // until each has started and is stuck at some point
		fill()
		pause(b, 50*time.Millisecond)
	}
	heap, stacks = memory()
	return heap - heapBefore, stacks - stacksBefore
}

func subscribe(tb testing.TB, socket string, ask []byte) net.Conn {
	tb.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := conn.Write(ask); err != nil {
		tb.Fatal(err)
	}
	return conn
}

// memory returns the used bytes of heap and of stacks.
func memory() (heap, stacks int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}
