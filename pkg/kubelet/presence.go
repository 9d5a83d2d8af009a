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
)

// Present reports whether a kubelet runs on the node: the configuration says so, its Pods API or its health check
// answers, or a mirror pod is a kubelet's. Before the first check it counts as present. Mirror pods stay in the apiserver
// when a kubelet is gone, so they do not count if the Node says that it no longer answers.
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
	return len(f.mirrors) > 0 && !f.lost || !f.probed || !f.answered.IsZero() && time.Since(f.answered) < absentAfter
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
