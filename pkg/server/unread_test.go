package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// unreadCall makes a call of gRPC whose answer can't be sent: the client's window is
// shut. It returns once the answer is under way.
func unreadCall(t *testing.T, conn net.Conn, method string, message []byte) *http2.Framer {
	t.Helper()
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	framer := http2.NewFramer(&out, conn)
	out.WriteString(http2.ClientPreface)
	for _, err := range []error{
		framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true}),
		framer.WriteData(1, true, append([]byte{0, 0, 0, 0, byte(len(message))}, message...)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("%s: no answer: %v", method, err)
		}
		if _, ok := frame.(*http2.HeadersFrame); ok {
			break
		}
	}
	return http2.NewFramer(conn, conn)
}

// listed waits until the only place for a list can be had again.
func (d *daemon) listed(t *testing.T, after string) {
	t.Helper()
	for start := time.Now(); time.Since(start) < 10*time.Second; {
		resp, err := d.http.Head("http://localhost/pods")
		if err != nil {
			continue // it took more than the time that lists have in these tests
		}
		if _ = resp.Body.Close(); resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatalf("%s: the place was not given back", after)
}

var bigCalls = []string{"/podconfigd.v1alpha1.PodConfig/List", "/podconfigd.v1alpha1.PodConfig/Status", "/v1alpha1.Pods/ListPods"}

// A list of gRPC that nobody reads is under way until it is read, or given up.
func TestListsOfGRPCThatNobodyReads(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, Limits{Lists: 1})
	d.add("a", 1)
	for _, method := range bigCalls {
		conn := d.dial(t)
		framer := unreadCall(t, conn, method, nil)
		code, body := d.get(t, "/pods")
		refused(t, code, body, "too many lists at a time: there are 1")
		client := d.grpc(t, d.socket)
		if _, err := podsv1alpha1.NewPodsClient(client).ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: ListPods meanwhile: %v", method, err)
		}
		if _, err := podconfigd.NewPodConfigClient(client).Status(t.Context(), &podconfigd.StatusRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: Status meanwhile: %v", method, err)
		}
		if err := framer.WriteWindowUpdate(1, 1<<20); err != nil {
			t.Fatal(err)
		}
		d.listed(t, method+" was read")
		_ = conn.Close()

		reset := d.dial(t)
		if err := unreadCall(t, reset, method, nil).WriteRSTStream(1, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
		d.listed(t, method+" was reset")
		_ = reset.Close()

		gone := d.dial(t)
		unreadCall(t, gone, method, nil)
		_ = gone.Close()
		d.listed(t, method+"'s client went away")
	}
}

func TestAnswersThatNobodyReadsHaveADeadline(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, Limits{Lists: 1, ListTimeout: 200 * time.Millisecond})
	d.add("a", 1)
	for _, call := range []struct{ method, message string }{
		{bigCalls[0], ""}, {bigCalls[1], ""}, {bigCalls[2], ""}, {"/v1alpha1.Pods/GetPod", "\x0a\x01a"},
	} {
		conn := d.dial(t)
		unreadCall(t, conn, call.method, []byte(call.message))
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset by peer") {
			t.Errorf("%s: the connection stands: %v", call.method, err)
		}
		d.listed(t, call.method+" had its time")
	}
	for i := range 32 {
		d.add(fmt.Sprint(i), 64<<10)
	}
	for _, path := range []string{"/pods", "/api/v1/pods"} {
		conn := d.dial(t)
		request(t, conn, path, "")
		if _, err := conn.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		d.listed(t, path+" had its time")
	}
}
