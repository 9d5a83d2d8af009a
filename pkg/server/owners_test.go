package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

func TestOwnersOnTheStream(t *testing.T) {
	var known atomic.Bool
	owners := func(p *journal.Pod) []v1alpha1.Owner {
		if p.Object.Name != "web" {
			return nil
		}
		if !known.Load() {
			return []v1alpha1.Owner{{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop", Labels: map[string]string{"team": "a"}, UID: "1"}}
		}
		return []v1alpha1.Owner{{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop", Labels: map[string]string{"team": "a"}}}
	}
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Owners = true })
	d.journal.SetOwners(owners)
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
	known.Store(true)
	d.journal.RecordOwners()
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

// serveOwned serves the pods web and db. web has the owner deployment/shop, once it is known. The client sees the labels of pods only,
// if hidden is true.
func serveOwned(t *testing.T, hidden bool) (d *daemon, know func(bool)) {
	t.Helper()
	d = serveWithLimits(t, journal.Options{Sources: []string{"api"}}, conn.Limits{}, func(o *Options) {
		if o.Owners = true; hidden {
			o.Policy = access.NewPolicy([]access.Rule{{View: access.Metadata}})
		}
	})
	var known atomic.Bool
	d.journal.SetOwners(func(p *journal.Pod) []v1alpha1.Owner {
		if p.Object.Name != "web" || !known.Load() {
			return nil
		}
		return []v1alpha1.Owner{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "shop-1"}, {APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"}}
	})
	web := podWith("web", "1")
	web.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "shop-1", Controller: new(true)}}
	d.journal.Append(config.PodUpdate{Op: config.ADD, Source: "api", Pods: []*v1.Pod{web, podWith("db", "1")}})
	return d, func(now bool) {
		known.Store(now)
		d.journal.RecordOwners()
	}
}

// A pod comes when its owner becomes known, and goes when it has another.
func TestSelectionByOwner(t *testing.T) {
	d, know := serveOwned(t, false)
	stream := d.read(t, "?owner=Deployment.apps/shop&namespace=default")
	stream.expect(t, v1alpha1.OpBookmark)
	open := func(selection string) *bufio.Scanner {
		path := fmt.Sprintf("http://localhost/api/v1/pods?watch&resourceVersion=%d%s", d.journal.Revision(), selection)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := d.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return bufio.NewScanner(resp.Body)
	}
	watch, all := open("&owner=replicaset/shop-1"), open("")
	know(true)
	stream.expect(t, v1alpha1.OpAdd, "web")
	since := d.journal.Revision()
	know(false)
	stream.expect(t, v1alpha1.OpRemove, "web")
	for _, want := range []string{"ADDED", "DELETED"} {
		if !watch.Scan() || !strings.HasPrefix(watch.Text(), `{"type":"`+want) {
			t.Errorf("got %s, want %s", watch.Text(), want)
		}
	}
	know(true)
	d.read(t, "?owner=deployment/shop&since="+strconv.FormatInt(since, 10)).expect(t, v1alpha1.OpRemove, "web")
	d.journal.Append(config.PodUpdate{Op: config.REMOVE, Source: "api", Pods: []*v1.Pod{podWith("web", "1")}})
	if !all.Scan() || !strings.HasPrefix(all.Text(), `{"type":"DELETED"`) {
		t.Errorf("a client that does not select by owner got %s first", all.Text())
	}
}

// Lists of all protocols select by owner. A client that may not see the owner references can't find out anything.
func TestListsByOwner(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		d, know := serveOwned(t, hidden)
		know(true)
		for owner, want := range map[string]int{
			"deployment/shop": 1, "DEPLOYMENT/shop": 1, "deployment.apps/shop": 1, "replicaset/shop-1": 1,
			"deployment.extensions/shop": 0, "deployment/shop-1": 0, "deployment/Shop": 0, "": 2,
		} {
			if hidden && want == 1 {
				want = 0
			}
			for _, path := range []string{"/pods?owner=", "/api/v1/pods?owner=", "/api/v1/namespaces/default/pods?owner="} {
				var list v1.PodList
				if _, body := d.get(t, path+owner); json.Unmarshal([]byte(body), &list) != nil || len(list.Items) != want {
					t.Errorf("hidden %t: %s%s: got %d pods, want %d", hidden, path, owner, len(list.Items), want)
				}
			}
			answer, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).List(t.Context(), &podconfigd.ListRequest{Selector: &podconfigd.PodSelector{Owner: owner}})
			if err != nil || len(answer.GetPods()) != want {
				t.Errorf("hidden %t: gRPC: got %d pods, %v, want %d", hidden, len(answer.GetPods()), err, want)
			}
		}
	}
}

// The daemon says what to do if it does not know owners, and what is wrong with one.
func TestInvalidOwners(t *testing.T) {
	without, with := serveJournal(t, journal.Options{}), serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) { o.Owners = true })
	for _, path := range []string{"/v1alpha1/updates?owner=", "/pods?owner=", "/api/v1/pods?owner=", "/api/v1/pods?watch&owner="} {
		if code, body := without.get(t, path+"deployment/a"); code != http.StatusBadRequest || !strings.Contains(body, `parameter \"owner\": podconfigd does not know the owners of pods: start it with --owners`) {
			t.Errorf("%s: got %d %s", path, code, body)
		}
		for _, owner := range []string{"a", "/a", "a/", "a/b/c", "a./b"} {
			if code, body := with.get(t, path+owner); code != http.StatusBadRequest || !strings.Contains(body, "is not an owner: expected KIND/NAME or KIND.GROUP/NAME") {
				t.Errorf("%s%s: got %d %s", path, owner, code, body)
			}
		}
	}
	_, err := podconfigd.NewPodConfigClient(with.grpc(t, with.socket)).List(t.Context(), &podconfigd.ListRequest{Selector: &podconfigd.PodSelector{Owner: "a"}})
	if err == nil || !strings.Contains(err.Error(), `selector.owner: "a" is not an owner`) {
		t.Errorf("gRPC: got %v", err)
	}
}

// The history has the changes of pods whose version before or after has the owner.
func TestHistoryByOwner(t *testing.T) {
	l := newLog(t, store.Options{})
	l.change(config.ADD, "api", "web", "1")
	l.change(config.ADD, "api", "db", "1")
	l.change(config.REMOVE, "api", "web", "1")
	d := l.serve(func(o *Options) {
		o.Owners = true
		o.History = func(opts history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
			opts.Owners = func(p *journal.Pod) []v1alpha1.Owner {
				return []v1alpha1.Owner{{Kind: "Deployment", Name: p.Object.Name}}
			}
			return history.Read(l.dir, opts)
		}
	})
	if got := short(d.page(t, "owner=deployment/web").Records); got != "ADD api/web, REMOVE api/web" {
		t.Errorf("got %s", got)
	}
	answer, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).History(t.Context(), &podconfigd.HistoryRequest{Owner: "deployment/web"})
	if err != nil || len(answer.GetRecords()) != 2 {
		t.Errorf("gRPC: got %v, %v", answer, err)
	}
}
