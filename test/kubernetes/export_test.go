package kubernetes

import (
	"net"
	"strings"
	"testing"
	"time"

	service "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/grpc"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// The container of the component export sends what the daemon beside it serves, and goes on after it is killed, and after the pod
// becomes one of root.
func runsExport(t *testing.T, c *cluster) {
	testutil.Long(t)
	n := c.node(t, "node3")
	n.putManifest(t, "web", 0o644)
	address, records := collector(t)
	await := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-records:
				if got == want {
					return
				}
				if strings.HasPrefix(got, "podconfigd.gap") || strings.HasSuffix(got, "web-node3") {
					t.Errorf("got %s before %s", got, want)
				}
			case <-time.After(testutil.Patience):
				t.Fatalf("no %s for %v", want, testutil.Patience)
			}
		}
	}
	run := func(components ...string) (p *daemonPod, export string) {
		t.Helper()
		r := deploy(t, c, overlay(t, "", components...))
		args := r.daemonSet.Spec.Template.Spec.Containers[1].Args
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "$(NODE_IP):4317", address)
		}
		p = n.runDaemon(t, r)
		export = p.start(t, &p.pod.Spec.Containers[1])
		return p, export
	}

	p, export := run("export")
	await("podconfigd.pod.add web-node3")
	expectProcess(t, p.PID(t, export), map[string]string{"Uid": "65532 65532 65532 65532", "NoNewPrivs": "1", "Seccomp": "2", "CapBnd": "0000000000000000"})
	n.RemoveContainer(t, export)
	n.putManifest(t, "second", 0o644)
	p.start(t, &p.pod.Spec.Containers[1])
	await("podconfigd.pod.add second-node3")
	p.stop(t, p.id)
	n.putManifest(t, "third", 0o600)
	p, export = run("root", "export")
	await("podconfigd.pod.add third-node3")
	expectProcess(t, p.PID(t, export), map[string]string{"Uid": "0 0 0 0", "CapBnd": "0000000000000000"})
}

// collector serves what a Collector does. Its records are the event and the pod.
func collector(t *testing.T) (address string, records chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	records = make(chan string, 1000)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var request service.ExportLogsServiceRequest
		if err := s.RecvMsg(&request); err != nil {
			return err
		}
		for _, r := range request.ResourceLogs[0].ScopeLogs[0].LogRecords {
			name := ""
			for _, a := range r.Attributes {
				if a.Key == "k8s.pod.name" {
					name = a.Value.GetStringValue()
				}
			}
			records <- r.EventName + " " + name
		}
		return s.SendMsg(new(service.ExportLogsServiceResponse))
	}))
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return l.Addr().String(), records
}
