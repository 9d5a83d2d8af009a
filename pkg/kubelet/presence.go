package kubelet

import (
	"context"
	"net/http"
	"time"
)

// Presence says whether a kubelet runs on the node.
type Presence string

// The values of Presence.
const (
	PresenceAuto Presence = Auto
	PresenceYes  Presence = "present"
	PresenceNo   Presence = "absent"
)

// DefaultHealthzURL is the health check of a kubelet with its default address.
//
// kubelet: healthzBindAddress and healthzPort of KubeletConfiguration.
const DefaultHealthzURL = "http://127.0.0.1:10248/healthz"

const (
	probeTimeout = time.Second
	// absentAfter is how long a kubelet does not answer until it counts as absent. An upgrade of it
	// takes less.
	absentAfter = 5 * time.Minute
	// heartbeatAfter is twice the interval at which a kubelet writes the conditions of its Node.
	//
	// kubelet: nodeStatusReportFrequency.
	heartbeatAfter = 10 * time.Minute
)

// Present reports whether a kubelet runs on the node: the configuration says so, its Pods API or its health check
// answers, the Node is ready or not ready as its kubelet wrote within the last minutes, or a mirror pod is a kubelet's.
// Before the first check it counts as present. The Ready condition becomes Unknown within a minute after the kubelet
// ceased to renew its Lease, so the Lease is not asked for. Mirror pods stay in the apiserver when a kubelet is gone, so
// they do not count if the Node says that it no longer answers.
func (f *Finder) Present() bool {
	switch f.opts.Presence {
	case PresenceYes:
		return true
	case PresenceNo:
		return false
	}
	if f.opts.Statics != nil && f.opts.Statics() != nil {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.probed || len(f.mirrors) > 0 && !f.lost {
		return true
	}
	return isWithin(f.heartbeat, heartbeatAfter) || isWithin(f.answered, absentAfter)
}

// isWithin reports whether a time that is not zero is less than that ago.
func isWithin(at time.Time, ago time.Duration) bool {
	return !at.IsZero() && time.Since(at) < ago
}

// probe asks for the health of the kubelet. Any answer shows that it is there.
func (f *Finder) probe(ctx context.Context) {
	if f.opts.Presence == PresenceYes || f.opts.Presence == PresenceNo {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answered := false
	if request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.opts.HealthzURL, http.NoBody); err == nil && f.opts.HealthzURL != "" {
		if response, err := probes.Do(request); err == nil {
			_ = response.Body.Close() // nothing is read
			answered = true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probed = true
	if answered {
		f.answered = time.Now()
	}
}

// probes is a client without proxies, which keeps no connections.
var probes = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
