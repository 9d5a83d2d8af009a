package daemon

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/kubelet/podsapi"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
)

// newPodsAPI returns the client of the kubelet's Pods API.
func (d *Daemon) newPodsAPI(registry prometheus.Registerer) *podsapi.Client {
	c := &d.config
	return podsapi.New(podsapi.Options{
		Path: *c.KubeletPodsAPI, Interval: c.KubeletPodsAPICheckFrequency.Duration, Registerer: registry,
		Ours: d.sourcePods, Apiserver: slices.Contains(c.sources(), config.ApiserverSource),
		Connected: func() { d.kubelet.Notice() },
		Without:   func(since time.Time, before bool) bool { return d.kubelet.WithoutPodsAPI(since, before) },
	})
}

// sourcePods returns all pods except mirror pods. If several sources have a pod, it is of another source only if all of them are
// further sources.
func (d *Daemon) sourcePods() map[types.UID]podsapi.SourcePod {
	pods := make(map[types.UID]podsapi.SourcePod)
	for _, p := range d.journal.State().Pods {
		further := p.Source != config.SourceKind(p.Source)
		if _, has := pods[p.Object.UID]; config.IsMirrorPod(p.Object) || has && further {
			continue
		}
		pods[p.Object.UID] = podsapi.SourcePod{
			NamespacedName: types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}, OfOtherSource: further,
		}
	}
	return pods
}

// statusOfKubelet takes the status of pods from the kubelet.
func (d *Daemon) statusOfKubelet() part {
	return part{
		name: "podsAPI", run: d.podsAPI.Run,
		apply:  applied(func(c *Config) { d.podsAPI.Configure(*c.KubeletPodsAPI, c.KubeletPodsAPICheckFrequency.Duration) }),
		status: func(status *v1alpha1.Status) { status.Kubelet.PodsAPI = d.podsAPI.Report() },
	}
}

// validateKubeletSockets requires absolute paths that are not sockets of podconfigd itself. With auto, such a socket of the Pods
// API is not used anyway.
func (c *Config) validateKubeletSockets(found *faults) {
	c.validateKubeletSocket(found, "kubeletPodsAPI", *c.KubeletPodsAPI, podsapi.DefaultPath)
	c.validateKubeletSocket(found, "podResourcesSocket", *c.PodResourcesSocket, devices.DefaultPath)
}

func (c *Config) validateKubeletSocket(found *faults, field FieldName, path, fallback string) {
	if path == podsapi.Auto || path == podsapi.None {
		return
	}
	validateSocketPath(found, field, path)
	own := []string{*c.Socket, c.PodsAPISocket}
	for _, text := range c.Listen {
		if address, err := socket.ParseAddress(text); err == nil {
			own = append(own, address.Path)
		}
	}
	switch {
	case found.has(field):
	case !filepath.IsAbs(path):
		found.addFault(field, "%q: expected %s, %s, or an absolute path, for example %s", path, podsapi.Auto, podsapi.None, fallback)
	case slices.ContainsFunc(own, func(other string) bool { return filepath.Clean(other) == filepath.Clean(path) }):
		found.addFault(field, "%s", fmt.Sprintf("%s is a socket of podconfigd itself: expected that of the kubelet", path))
	}
}
