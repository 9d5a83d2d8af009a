package server

import (
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

func TestOwnersOnTheStream(t *testing.T) {
	owners := func(p *journal.Pod) []v1alpha1.Owner {
		if p.Object.Name != "web" {
			return nil
		}
		return []v1alpha1.Owner{{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop", Labels: map[string]string{"team": "a"}}}
	}
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Owners = owners })
	web, db := podWith("web", "1"), podWith("db", "1")
	d.journal.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{web, db}})
	r := d.read(t, "?owners=true")
	check := func(u *v1alpha1.Update) {
		t.Helper()
		if got := u.Owners[string(web.UID)]; len(u.Owners) != 1 || len(got) != 1 || got[0].Name != "shop" || got[0].Labels["team"] != "a" {
			t.Errorf("got %+v", u.Owners)
		}
	}
	check(r.expect(t, v1alpha1.OpAdd, "db", "web"))
	r.expect(t, v1alpha1.OpBookmark)
	d.journal.RecordOwners(web.UID)
	check(r.expect(t, v1alpha1.OpReconcile, "web"))
	for u, err := range client.New(d.socket).Updates(t.Context(), client.Options{Owners: true}) {
		if err != nil {
			t.Fatal(err)
		}
		check(u)
		break
	}
	if u := d.read(t, "").expect(t, v1alpha1.OpAdd, "db", "web"); u.Owners != nil {
		t.Errorf("not requested: got %+v", u.Owners)
	}
	stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Watch(t.Context(), &podconfigd.WatchRequest{Owners: true})
	if err != nil {
		t.Fatal(err)
	}
	message, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if got := message.GetOwners()[string(web.UID)].GetOwners(); len(got) != 1 || got[0].GetName() != "shop" || got[0].GetLabels()["team"] != "a" {
		t.Errorf("over gRPC: got %+v", message.GetOwners())
	}

	code, body := serveJournal(t, journal.Options{}).get(t, "/v1alpha1/updates?owners=true")
	if want := "podconfigd does not know the owners of pods: start it with --owners"; code != http.StatusBadRequest || !strings.Contains(body, want) {
		t.Errorf("without --owners: got %d %q", code, body)
	}
}
