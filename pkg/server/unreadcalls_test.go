package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalphapb "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// callMessages have the request of each method that does not answer an empty one with a message.
var callMessages = map[string]proto.Message{
	podsv1alpha1.Pods_GetPod_FullMethodName:                                &podsv1alpha1.GetPodRequest{PodUID: "a"},
	podconfigd.PodConfig_Lookup_FullMethodName:                             lookupOfA,
	podconfigd.PodConfig_LookupStream_FullMethodName:                       &podconfigd.LookupStreamRequest{Query: &podconfigd.LookupRequest{Target: lookupOfA.GetTarget(), Pods: true}},
	podconfigd.PodConfig_Resync_FullMethodName:                             &podconfigd.ResyncRequest{Namespace: "default", Name: "a"},
	podconfigd.PodConfig_Release_FullMethodName:                            &podconfigd.ReleaseRequest{Source: "file"},
	reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName:      listServices,
	reflectionalphapb.ServerReflection_ServerReflectionInfo_FullMethodName: listServices,
}

// listServices has the same encoding in all versions of reflection.
var listServices = &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}

var lookupOfA = &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_PodUid{PodUid: "a"}}

// callAddress is one way to make calls.
type callAddress struct {
	network, address, token string
	tls                     *tls.Config
	// methods are all methods that the address serves, with true for those that stream.
	methods map[string]bool
}

// dial connects, for HTTP/2.
func (a *callAddress) dial(ctx context.Context) (net.Conn, error) {
	if a.tls != nil {
		return (&tls.Dialer{Config: a.tls}).DialContext(ctx, a.network, a.address)
	}
	return new(net.Dialer).DialContext(ctx, a.network, a.address)
}

// callAddresses serves a daemon that answers each method, on each kind of address.
func callAddresses(t *testing.T, limits conn.Limits) map[string]*callAddress {
	t.Helper()
	answering := func(o *Options) {
		posting(o)
		large(o)
		o.Lookup = lookup.New(lookup.Options{Journal: o.Journal})
		streamContainers(t, o)
	}
	local, address := serveLocal(t, limits, answering)
	local.add("a", 1)
	https := serveHTTPS(t, limits, answering)
	https.add("a", 1)
	limits.Connections = 1
	limits.ConnectionsPerPeer = 1
	full := serveWithLimits(t, journal.Options{}, limits, answering)
	full.dial(t) // takes the only place
	methods := func(podsAPIOnly bool) map[string]bool {
		all := make(map[string]bool)
		for service, info := range local.server.rpc.NewServer(t.Context(), podsAPIOnly).GetServiceInfo() {
			for _, m := range info.Methods {
				// register makes all methods streams. Those that stream by themselves are known by name.
				all["/"+service+"/"+m.Name] = strings.Contains(m.Name, "Watch") || m.IsClientStream
			}
		}
		return all
	}
	all := methods(false)
	reading := make(map[string]bool)
	for method, streams := range all {
		if method != podconfigd.PodConfig_Resync_FullMethodName && method != podconfigd.PodConfig_Release_FullMethodName {
			reading[method] = streams
		}
	}
	return map[string]*callAddress{
		"the socket":              {network: "unix", address: local.socket, methods: all},
		"the socket for the pods": {network: "unix", address: local.pods, methods: methods(true)},
		"the loopback address":    {network: "tcp", address: address, methods: reading},
		"https": {
			network: "tcp", address: https.address, token: "all", methods: all,
			tls: &tls.Config{RootCAs: https.roots, NextProtos: []string{"h2"}},
		},
		"beyond the limit": {network: "unix", address: full.socket, methods: map[string]bool{
			"/grpc.health.v1.Health/Check": false, "/grpc.health.v1.Health/List": false, "/grpc.health.v1.Health/Watch": true,
		}},
	}
}

// A program that has gzip compresses no answer, also if the client compresses its request.
func TestAnswersOfCallsAreNotCompressed(t *testing.T) {
	for name, a := range callAddresses(t, conn.Limits{}) {
		transport := &http.Transport{
			DialContext:    func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dial(ctx) },
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dial(ctx) },
			Protocols:      new(http.Protocols),
		}
		transport.Protocols.SetUnencryptedHTTP2(a.tls == nil)
		transport.Protocols.SetHTTP2(a.tls != nil)
		t.Cleanup(transport.CloseIdleConnections)
		scheme := map[bool]string{true: "https", false: "http"}[a.tls != nil]
		for method := range a.methods {
			t.Run(path.Join(name, method), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://localhost"+method, bytes.NewReader(gzipped(t, callMessages[method])))
				if err != nil {
					t.Fatal(err)
				}
				r.Header = http.Header{
					"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Authorization": {"Bearer " + a.token},
					"Grpc-Encoding": {gzip.Name}, "Grpc-Accept-Encoding": {gzip.Name},
				}
				resp, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				prefix := make([]byte, messagePrefix)
				if _, err := io.ReadFull(resp.Body, prefix); err != nil {
					t.Fatalf("no message: %v, header %v, trailer %v", err, resp.Header, resp.Trailer)
				}
				if encoding := resp.Header.Get("Grpc-Encoding"); encoding != "identity" || prefix[0] != 0 {
					t.Errorf("the encoding is %q, and the flag of the message %d", encoding, prefix[0])
				}
			})
		}
	}
}

// gzipped returns a message with its prefix, compressed; an empty message for nil.
func gzipped(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := bytes.NewBuffer([]byte{1, 0, 0, 0, 0})
	w, err := encoding.GetCompressor(gzip.Name).Compress(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(out.Bytes()[1:], uint32(out.Len()-messagePrefix))
	return out.Bytes()
}

// The answer to a call lasts until it is written, for each method whose answers are not paced: if the client does not
// read it, the connection or the stream ends after the timeout. An answer that counts as written too early
// would have no timeout.
func TestUnreadAnswersOfEachMethod(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	for name, a := range callAddresses(t, conn.Limits{ListTimeout: 200 * time.Millisecond}) {
		if name == "beyond the limit" {
			continue // its connections end by themselves
		}
		for method, streams := range a.methods {
			if streams && method != podconfigd.PodConfig_LookupStream_FullMethodName { // an answer with pods is written first
				continue
			}
			for _, encoding := range []string{"identity", gzip.Name} {
				t.Run(path.Join(name, method, encoding), func(t *testing.T) {
					t.Parallel()
					message, err := proto.Marshal(callMessages[method])
					if err != nil {
						t.Fatal(err)
					}
					conn, err := a.dial(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					framer, err := tryUnreadCall(t, conn, method, message, [2]string{"grpc-encoding", encoding}, [2]string{"authorization", "Bearer " + a.token})
					switch {
					case errors.Is(err, io.EOF):
						return // on a slow machine, the timeout ends the connection before the answer
					case err != nil:
						t.Fatal(err)
					}
					for {
						frame, err := framer.ReadFrame()
						if errors.Is(err, os.ErrDeadlineExceeded) {
							t.Fatal("the call has no timeout")
						}
						if err != nil {
							return // the connection has ended
						}
						if reset, ok := frame.(*http2.RSTStreamFrame); ok && reset.StreamID == 1 && a.tls != nil {
							return
						}
					}
				})
			}
		}
	}
}
