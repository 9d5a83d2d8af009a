package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	v1 "k8s.io/api/core/v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// addressed delivers a pod with a label and an IP.
func (d *daemon) addressed(op config.PodOperation, label, ip string) {
	p := podWith("a", label)
	p.Spec.Containers = []v1.Container{{Name: "c", Image: "i"}}
	p.Status.PodIPs = []v1.PodIP{{IP: ip}}
	d.journal.Append(config.PodUpdate{Op: op, Source: "file", Pods: []*v1.Pod{p}})
}

// Only the requested fields are sent, and changes of others send nothing, in all modes.
func TestFieldsOfTheStream(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.addressed(config.ADD, "x", "10.0.0.1")
	const want = `"pods":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"a"},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}]`
	for mode, op := range map[string]v1alpha1.Op{"incremental": v1alpha1.OpUpdate, "snapshot": v1alpha1.OpSet, "snapshot-and-updates": v1alpha1.OpUpdate} {
		t.Run(mode, func(t *testing.T) {
			d.addressed(config.UPDATE, "x", "10.0.0.1")
			r := d.read(t, "?fields=status.podIPs&mode="+mode)
			if !r.scanner.Scan() || !strings.Contains(r.scanner.Text(), want) {
				t.Errorf("%s: %s, want %s", mode, r.scanner.Text(), want)
			}
			r.expect(t, v1alpha1.OpBookmark)
			d.addressed(config.UPDATE, "y", "10.0.0.1")
			d.addressed(config.UPDATE, "z", "10.0.0.2")
			if u := r.expect(t, op, "a"); u.Pods[0].Status.PodIPs[0].IP != "10.0.0.2" || u.Pods[0].Labels != nil || len(u.Pods[0].Spec.Containers) > 0 {
				t.Errorf("%s: %+v", mode, u.Pods[0])
			}
		})
	}
	// A selector is of the whole pod.
	r := d.read(t, "?fields=status.podIPs&labelSelector=app=z")
	r.expect(t, v1alpha1.OpAdd, "a")
	r.expect(t, v1alpha1.OpBookmark)
	d.addressed(config.UPDATE, "other", "10.0.0.2")
	r.expect(t, v1alpha1.OpRemove, "a")
}

func TestFieldsOfLists(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.addressed(config.ADD, "x", "10.0.0.1")
	code, body := d.get(t, "/pods?fields=spec.containers.image")
	var list v1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK || len(list.Items) != 1 || list.Items[0].Spec.Containers[0].Image != "i" ||
		strings.Contains(body, "10.0.0.1") || strings.Contains(body, `"status"`) {
		t.Errorf("%d %s, %v", code, body, err)
	}
	for _, path := range []string{"/pods?fields=spec.contaners", "/v1alpha1/updates?fields=spec.contaners"} {
		if code, body := d.get(t, path); code != http.StatusBadRequest || !strings.Contains(body, `parameter \"fields\": \"spec.contaners\": spec has no field \"contaners\": did you mean \"containers\"?`) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// gRPC takes a field mask. From JSON, its paths are in snake case.
func TestFieldsOverGRPC(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.addressed(config.ADD, "x", "10.0.0.1")
	api := podconfigd.NewPodConfigClient(d.grpc(t, d.socket))
	check := func(data []byte) {
		t.Helper()
		var p v1.Pod
		if err := p.Unmarshal(data); err != nil || p.Name != "a" || p.Labels != nil || len(p.Spec.Containers) > 0 || len(p.Status.PodIPs) != 1 {
			t.Errorf("%+v, %v", p, err)
		}
	}
	for _, path := range []string{"status.podIPs", "status.pod_i_ps"} {
		mask := &fieldmaskpb.FieldMask{Paths: []string{path}}
		list, err := api.List(t.Context(), &podconfigd.ListRequest{Fields: mask})
		if err != nil {
			t.Fatal(err)
		}
		check(list.GetPods()[0])
		watch, err := api.Watch(t.Context(), &podconfigd.WatchRequest{Fields: mask})
		if err != nil {
			t.Fatal(err)
		}
		update, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		check(update.GetPods()[0])
	}
	bad := &fieldmaskpb.FieldMask{Paths: []string{"status.podIP.x"}}
	if _, err := api.List(t.Context(), &podconfigd.ListRequest{Fields: bad}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "fields: ") {
		t.Error(err)
	}
	watch, err := api.Watch(t.Context(), &podconfigd.WatchRequest{Fields: bad})
	if err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}
