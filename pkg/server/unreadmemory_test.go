package server

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A subscriber that never reads takes at most 96 KiB of the daemon's memory, while pods change again and again. Until
// its socket is full, it takes what any other one does while changes are encoded for it. That is not judged.
func TestSubscribersThatNeverRead(t *testing.T) {
	const subscribers, most = 200, 96 << 10
	used := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	for _, path := range []string{
		"/v1alpha1/updates", "/v1alpha1/updates?mode=snapshot", "/api/v1/pods?watch=true",
		"/podconfigd.v1alpha1.PodConfig/Watch", "/v1alpha1.Pods/WatchPods",
	} {
		t.Run(path, func(t *testing.T) {
			d := serveWithLimits(t, journal.Options{MaxBytes: 1 << 20}, conn.Limits{Subscribers: 2 * subscribers, SubscribersPerPeer: subscribers, Connections: 4 * subscribers, ConnectionsPerPeer: 4 * subscribers})
			change := func() {
				for i := range 300 {
					d.add(fmt.Sprint(i%100), 3<<10)
				}
			}
			change()
			before := used()
			for i := range subscribers {
				if client := d.dial(t); path[1] == 'p' || path[len("/v1alpha1")] == '.' {
					framer := unreadCall(t, client, path, nil)
					_, _ = framer.WriteWindowUpdate(0, 1<<24), framer.WriteWindowUpdate(1, 1<<24)
				} else {
					request(t, client, path, "")
				}
				if i%10 == 0 {
					d.add(fmt.Sprint(i%100), 3<<10) // they stop at different places
				}
			}
			testutil.Until(t, "all subscribe", func() bool { return d.limits.Sockets.Subscribers.InUse() == subscribers })
			now, first, same := int64(0), int64(0), 0
			testutil.Until(t, "their memory stays the same", func() bool {
				change()
				<-time.After(50 * time.Millisecond)
				now = used()
				if same++; max(now-first, first-now) > subscribers<<10 {
					first, same = now, 0
				}
				return same == 5
			})
			if each := (now - before) / subscribers; each > most {
				t.Errorf("each takes %d KiB, want at most %d", each>>10, most>>10)
			} else {
				t.Logf("each takes %d KiB", each>>10)
			}
		})
	}
}
