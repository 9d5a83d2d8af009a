package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
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
	// absentAfter is how long a kubelet may not answer before it counts as absent. An upgrade takes less.
	absentAfter = 5 * time.Minute
	// heartbeatAfter is twice the interval at which a kubelet writes the conditions of its Node.
	//
	// kubelet: nodeStatusReportFrequency.
	heartbeatAfter = 10 * time.Minute
	// firstPodsAPI is the first minor that has the Pods API by default. A kubelet serves it when its health check answers,
	// or within podsAPIAfter.
	firstPodsAPI manifest.Minor = 37
	podsAPIAfter                = time.Minute
)

// Present reports whether a kubelet runs on the node. Each of these shows one:
//
//   - the configuration
//   - its Pods API or its health check answers
//   - it wrote the Ready condition of the Node within heartbeatAfter
//   - it created a mirror pod and wrote its status, unless the Ready condition is Unknown: the apiserver keeps the mirror pods of a kubelet that
//     is gone
//
// Before the first health check, a kubelet counts as present. The Lease of the Node is not read: within a minute after the
// kubelet stops renewing it, the Ready condition is Unknown.
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

// WithoutPodsAPI reports whether a kubelet that has no Pods API runs on the node, if no socket was served since that time.
// before says whether one was served before. Each of these shows such a kubelet:
//
//   - the Node names an older version. If a socket was served before, the version must have changed since: a kubelet 1.36 has the
//     Pods API if its feature gate is on
//   - the health check answers nevertheless, or the kubelet writes the Ready condition of the Node
func (f *Finder) WithoutPodsAPI(unserved time.Time, before bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	minor, err := manifest.ParseMinor(f.node)
	if err == nil && minor < firstPodsAPI && (!before || f.nodeAt.created.After(unserved)) {
		return true
	}
	late := unserved.Add(podsAPIAfter)
	return f.answered.After(late) || f.heartbeat.After(late)
}

// isWithin reports whether a time is less than a duration ago. It is false for the zero time.
func isWithin(at time.Time, ago time.Duration) bool {
	return !at.IsZero() && time.Since(at) < ago
}

// probe requests the health check of the kubelet. Any answer shows that there is a kubelet.
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

// probes uses no proxy, keeps no connections and follows no redirect: any program can have the port of a kubelet that is gone.
var probes = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// maxFiles limits the number of files that are remembered for a name.
const maxFiles = 64

// missing returns the files of a name that are gone, apart from one.
func (f *Finder) missing(name types.NamespacedName, except string) (files []string) {
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.files[name]))
	f.mu.Unlock()
	for _, file := range all {
		if file == "" || file == except { // a pod of a URL has none
			continue
		}
		if _, err := f.opts.stat(file); errors.Is(err, fs.ErrNotExist) {
			files = append(files, file)
		}
	}
	return files
}

// decodedFile records the UID that the rules give the pod in a file, and forgets the files that are gone.
func (f *Finder) decodedFile(name types.NamespacedName, file string, uid types.UID, gone []string) {
	for _, other := range gone {
		delete(f.files[name], other)
	}
	if f.files[name] == nil || len(f.files[name]) >= maxFiles {
		f.files[name] = make(map[string]types.UID, 1)
	}
	f.files[name][file] = uid
}

// gives reports whether the rules give the pod of that name the UID in one of its files.
func (f *Finder) gives(name types.NamespacedName, uid types.UID) bool {
	for _, given := range f.files[name] {
		if given == uid {
			return true
		}
	}
	return false
}

// SetIgnoring sets whether there may be files that the kubelet reads and podconfigd does not. Then a UID that no rules give
// can be that of such a file, and is not adopted.
func (f *Finder) SetIgnoring(ignoring bool) {
	f.mu.Lock()
	f.ignoring = ignoring
	f.mu.Unlock()
	f.Notice()
}

// Compare shows in the status which shadowed manifests the kubelet runs: of two files with one pod, it takes the last one.
func (f *Finder) Compare(status *v1alpha1.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range status.Sources {
		if status.Sources[i].File == nil {
			continue
		}
		manifests := status.Sources[i].File.Manifests
		for j := range manifests {
			m := &manifests[j]
			s := f.seen(types.NamespacedName{Namespace: m.Namespace, Name: m.Name})
			if m.State != v1alpha1.ManifestShadowed || m.UID == "" || s == nil || s.uid != types.UID(m.UID) {
				continue
			}
			m.Warnings = append(slices.Clip(m.Warnings), "the kubelet runs the pod of this file: it takes the last of the files by name")
			if k := status.Kubelet; k != nil && k.Detail == "" {
				k.Detail = fmt.Sprintf("the kubelet runs %s/%s of %s, and podconfigd serves that of another file: remove one of the files",
					m.Namespace, m.Name, filepath.Base(m.Path))
			}
		}
	}
}
