package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// longest is how long an answer with an error may be: JSON has six bytes for some characters.
const longest = 2*6*respond.MaxMessage + 1024

// Errors quote what a client sent. Of a long text, they have the start only, in each form.
func TestErrorsQuoteNoLongText(t *testing.T) {
	d := serveLookup(t, conn.Limits{})
	d.add("a", 1)
	long := strings.Repeat("<", 15<<10) // three bytes each in a path
	for _, r := range []struct{ method, path, accept string }{
		{"GET", "/" + long, ""},
		{"GET", "/api/" + long, ""},
		{"GET", "/exec/" + long, ""},
		{"GET", "/api/v1/namespaces/default/pods/" + long, ""},
		{"GET", "/api/v1/namespaces/" + long, ""},
		{"GET", "/api/v1/pods", strings.Repeat("<", 50<<10)},
		{"GET", "/api/v1/pods?fieldSelector=" + long[:5<<10], ""},
		{"GET", "/v1alpha1/lookup?podUID=" + long[:5<<10], ""},
		{"GET", "/v1alpha1/updates?" + long[:5<<10], ""},
		{"P" + strings.Repeat("O", 50<<10), "/pods", ""},
	} {
		t.Run(fmt.Sprintf("%.20s %.60s", r.method, r.path), func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), r.method, "http://localhost"+r.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.accept != "" {
				req.Header.Set("Accept", r.accept)
			}
			if code, body := roundTrip(t, d.http, req); code < 400 || len(body) > longest {
				t.Errorf("%.20s %.60s: %d with %d bytes", r.method, r.path, code, len(body))
			}
		})
	}
	conn := d.grpc(t, d.socket)
	pods, api := podsv1alpha1.NewPodsClient(conn), podconfigd.NewPodConfigClient(conn)
	long = strings.Repeat("%", 50<<10)
	for name, call := range map[string]func(context.Context) error{
		"GetPod": func(ctx context.Context) error {
			_, err := pods.GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: long})
			return err
		},
		"List": func(ctx context.Context) error {
			_, err := api.List(ctx, &podconfigd.ListRequest{Selector: &podconfigd.PodSelector{LabelSelector: long}})
			return err
		},
		"Watch": func(ctx context.Context) error {
			stream, err := api.Watch(ctx, &podconfigd.WatchRequest{Selector: &podconfigd.PodSelector{FieldSelector: long}})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"LookupStream": func(ctx context.Context) error {
			stream, err := api.LookupStream(ctx)
			if err == nil {
				err = stream.Send(&podconfigd.LookupStreamRequest{Query: &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_Cgroup{Cgroup: long}}})
			}
			if err != nil {
				return err
			}
			answer, err := stream.Recv()
			if err != nil {
				return err
			}
			return fmt.Errorf("%s", answer.GetError().GetMessage())
		},
		"an unknown method": func(ctx context.Context) error {
			return conn.Invoke(ctx, "/v1alpha1.Pods/"+long, &podsv1alpha1.GetPodRequest{}, &podsv1alpha1.GetPodResponse{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := call(t.Context())
			if message := status.Convert(err).Message(); err == nil || message == "" || len(message) > respond.MaxMessage+len("…") {
				t.Errorf("%s: %d bytes: %.80v", name, len(message), err)
			}
		})
	}
}

// A message that is short stays as it is.
func TestShortErrorsStay(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	if code, body := d.get(t, "/nothing"); code != http.StatusNotFound || !strings.Contains(body, "there is nothing at /nothing; there is /v1alpha1/updates") || !strings.Contains(body, "/metrics and /version") {
		t.Errorf("%d %s", code, body)
	}
	_, err := podsv1alpha1.NewPodsClient(d.grpc(t, d.socket)).GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: "absent"})
	if want := `pod with UID "absent" not found`; status.Convert(err).Message() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
