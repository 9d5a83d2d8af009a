package podsapi

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/config"
)

const (
	// maxUnknown is the maximum number of pods that a status lists.
	maxUnknown = 100
	// maxText is the maximum length of a text of the kubelet in logs and in the status, in bytes.
	maxText = 1000
)

// Report returns the status of the connection; nil if none is configured and there was none yet.
func (c *Client) Report() *v1alpha1.KubeletPodsAPI {
	c.mu.Lock()
	r := &v1alpha1.KubeletPodsAPI{Socket: c.path, Connected: c.statuses.isLive(), LastError: c.lastError}
	since, expected := c.since, c.expected()
	c.mu.Unlock()
	if !expected {
		return nil
	}
	if !since.IsZero() {
		r.Since = new(since)
	}
	r.Pods, r.Statuses = c.statuses.count()
	toKubelet, toSources := c.unknown()
	r.UnknownToKubelet, r.UnknownToSources = texts(toKubelet), texts(toSources)
	return r
}

// expected reports whether there must be a kubelet: one gave a status, its socket is configured, or somebody serves it. The caller
// has locked the mutex.
func (c *Client) expected() bool {
	return !c.off && (c.known || !c.auto || c.away && c.lastError != "")
}

// unknown returns the pods of the sources that are missing in the kubelet, and the pods of the kubelet that no source
// has. While the kubelet is away, it returns none.
func (c *Client) unknown() (toKubelet, toSources []types.NamespacedName) {
	if !c.statuses.isLive() {
		return nil, nil
	}
	ours := c.ours()
	c.statuses.mu.Lock()
	defer c.statuses.mu.Unlock()
	for uid, pod := range ours {
		if e := c.statuses.pods[uid]; (e == nil || e.unlisted) && !pod.OfOtherSource {
			toKubelet = append(toKubelet, pod.NamespacedName)
		}
	}
	for uid, e := range c.statuses.pods {
		if _, has := ours[uid]; !has && (e.source != config.ApiserverSource || c.apiserver) {
			toSources = append(toSources, e.name)
		}
	}
	return toKubelet, toSources
}

// count returns the number of pods, and of those with a status.
func (s *statuses) count() (pods, known int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.pods {
		if e.status != nil {
			known++
		}
	}
	return len(s.pods), known
}

// texts returns the first names, in order.
func texts(names []types.NamespacedName) (first []string) {
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range names[:min(len(names), maxUnknown)] {
		first = append(first, printable.Cut(name.String(), maxText))
	}
	return first
}

// Statics returns the UIDs of the kubelet's static pods by name; nil without a connection, also for a moment: another kubelet may
// start.
func (c *Client) Statics() map[types.NamespacedName]types.UID {
	c.mu.Lock()
	connected := c.connected
	c.mu.Unlock()
	if !connected {
		return nil
	}
	c.statuses.mu.Lock()
	defer c.statuses.mu.Unlock()
	uids := make(map[types.NamespacedName]types.UID)
	newest := make(map[types.NamespacedName]*entry)
	for uid, e := range c.statuses.pods {
		static := e.source == config.FileSource || e.source == config.HTTPSource
		if static && !e.unlisted && isNewer(e, newest[e.name], uid > uids[e.name]) {
			uids[e.name], newest[e.name] = uid, e
		}
	}
	return uids
}

// isNewer reports whether a pod is newer than another one, which may be nil, of the same name: the kubelet ends the other one. Of two
// pods that came in one list, that is the one that the kubelet saw later.
func isNewer(e, than *entry, otherwise bool) bool {
	switch {
	case than == nil || e.first != than.first:
		return than == nil || e.first > than.first
	case !e.seen.Equal(than.seen):
		return e.seen.After(than.seen)
	}
	return otherwise
}

// changePeriod is the minimum time between two changes of a pod that are passed on. The last change is always passed on.
const changePeriod = time.Second

// change passes a change on, at once or when changePeriod is over. The caller has locked the mutex.
func (s *statuses) change(uid types.UID, e *entry) {
	s.changed[uid] = struct{}{}
	if wait := time.Until(e.told.Add(changePeriod)); wait > 0 {
		if s.due == nil {
			s.due = time.AfterFunc(wait, s.ring)
		}
		return
	}
	await.Signal(s.notices)
}

// ring passes on a change that is due.
func (s *statuses) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = nil
	await.Signal(s.notices)
}

// stop stops the timer.
func (s *statuses) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due != nil {
		s.due.Stop()
		s.due = nil
	}
}

// dueChanges returns the pods whose changes are due.
func (s *statuses) dueChanges() (uids []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next := time.Duration(0)
	for uid := range s.changed {
		if e := s.pods[uid]; e != nil {
			if wait := e.told.Add(changePeriod).Sub(now); wait > 0 {
				if next == 0 || wait < next {
					next = wait
				}
				continue
			}
			e.told = now
		}
		delete(s.changed, uid)
		uids = append(uids, uid)
	}
	if next > 0 && s.due == nil {
		s.due = time.AfterFunc(next, s.ring)
	}
	return uids
}

// The methods, in metrics.
const (
	watchPods = "WatchPods"
	listPods  = "ListPods"
	getPod    = "GetPod"
)

type metrics struct {
	watches, events, drops prometheus.Counter
	requests, refusals     *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, c *Client) *metrics {
	in := metric.In(reg, "kubelet_pods_api")
	in.GaugeFunc("connected", "1 while the kubelet gives the status of pods; otherwise 0.", func() float64 {
		return metric.Bool(c.statuses.isLive())
	})
	in.GaugeFunc("lost", "1 while the kubelet gives no status of pods, although it did before, it serves its socket, or the path of its socket is configured; otherwise 0.", func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return metric.Bool(!c.statuses.isLive() && c.expected())
	})
	unknown := func(to string, read func() float64) {
		in := metric.In(prometheus.WrapRegistererWith(prometheus.Labels{"to": to}, reg), "kubelet_pods_api")
		in.GaugeFunc("unknown_pods", "Number of pods that one side does not have: the kubelet, or the sources. 0 while the kubelet gives no status of pods.", read)
	}
	unknown("kubelet", func() float64 {
		pods, _ := c.unknown()
		return float64(len(pods))
	})
	unknown("sources", func() float64 {
		_, pods := c.unknown()
		return float64(len(pods))
	})
	return &metrics{
		watches:  in.Counter("watches_total", "Number of watches that the kubelet opened for podconfigd."),
		events:   in.Counter("events_total", "Number of events from the kubelet after the first ones of a watch."),
		drops:    in.Counter("drops_total", "Number of times that the kubelet dropped the watch, because it was 100 events behind."),
		requests: in.CounterVec("requests_total", "Number of requests to the kubelet, by method: ListPods or GetPod.", "method", listPods, getPod),
		refusals: in.CounterVec("refusals_total", "Number of watches and requests that the kubelet refused, because its clients together sent too many, by method: WatchPods, ListPods or GetPod.",
			"method", watchPods, listPods, getPod),
	}
}
