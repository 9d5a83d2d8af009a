package daemon

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// clocked is a store whose sets have the times of another clock.
type clocked struct {
	journal.Store

	now time.Time
}

func (c *clocked) Append(set *journal.Set, show func(journal.Commit)) {
	set.Time = c.now
	c.Store.Append(set, show)
}

// The log has a pod that was removed also if its removal was observed later, or before the clock was set back.
func TestWholePodsOfTheLog(t *testing.T) {
	s, err := openState(stateIn(t.TempDir()), "node1", nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	store := &clocked{s.log, began}
	j := journal.New(journal.Options{Sources: []string{"api"}, Store: store, Recovered: &s.recovered.Recovered})
	base := j.Revision()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.log.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	remove := func(after time.Duration, name, version string) {
		store.now = began.Add(after)
		p := podtest.Pod(name + "=" + version)
		j.Append(config.PodUpdate{Op: config.ADD, Source: "api", Pods: []*v1.Pod{p}})
		j.Append(config.PodUpdate{Op: config.REMOVE, Source: "api", Pods: []*v1.Pod{p}})
	}
	remove(0, "web", "1")
	remove(10*time.Second, "web", "2") // it was back
	remove(time.Hour, "other", "1")
	remove(30*time.Minute, "later", "1") // the clock was set back
	for {
		r, err := j.After(base, nil, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Sets) >= 9 { // with that of the bookmark
			break
		}
		<-r.Changed
	}
	for _, test := range []struct {
		name string
		at   time.Duration
		want string
	}{
		{"web", 0, "1"}, {"web", 10 * time.Second, "2"}, {"web", 40 * time.Second, "2"}, {"other", time.Hour, "1"}, {"later", 30 * time.Minute, "1"},
		{"web", -time.Second, ""}, {"web", 10 * time.Minute, ""}, {"none", 0, ""},
	} {
		pod := s.wholePods()(ctx, map[types.UID]time.Time{types.UID(test.name): began.Add(test.at)})[types.UID(test.name)]
		got := ""
		if pod != nil {
			got = pod.Object.Labels["image"]
		}
		if got != test.want {
			t.Errorf("%s at %v: got %q, want %q", test.name, test.at, got, test.want)
		}
	}
	several := s.wholePods()(ctx, map[types.UID]time.Time{
		"web": began, "other": began.Add(time.Hour), "later": began.Add(30 * time.Minute), "none": began,
	})
	if len(several) != 3 || several["web"].Object.Labels["image"] != "1" || several["other"] == nil || several["later"] == nil {
		t.Errorf("several at once: got %v", several)
	}
}
