package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/kubelet/podsapi"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
)

// kubeletName is the name of the file in the state directory in which earlier versions remembered what is now the note of
// the journal's log.
const kubeletName = "kubelet.json"

// newFinder returns the finder of the node's kubelet.
func (d *Daemon) newFinder(decoder *manifest.Decoder, registry prometheus.Registerer) *kubelet.Finder {
	c := &d.config
	opts := kubelet.Options{
		Decoder: decoder, Version: *c.KubeletVersion, Remembered: d.state.kubelet(), Registerer: registry,
		Restored: d.state.restoredUIDs(), Node: c.Kubeconfig != "",
		Statics: d.podsAPI.Statics, Presence: kubelet.Presence(*c.KubeletPresence), HealthzURL: kubelet.DefaultHealthzURL,
	}
	if d.runtime != nil {
		opts.List, opts.Pods = d.runtime.client.Pods, d.runtime.generator.Pods
	}
	if d.state.log != nil {
		opts.Remember = d.state.rememberKubelet
	}
	return kubelet.New(opts)
}

// kubelet returns what is remembered about the kubelet; nil if nothing is. If that can't be read, report logs the
// problem.
func (s *state) kubelet() *kubelet.Memory {
	if s.log == nil {
		return nil
	}
	data, from := []byte(s.recovered.Note), "the journal"
	if len(data) == 0 {
		var err error
		from = kubeletName
		if data, err = smallfile.Read(filepath.Join(s.dir, kubeletName)); err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				s.forgotKubelet(from, err)
			}
			return nil
		}
	}
	memory := new(kubelet.Memory)
	err := json.Unmarshal(data, memory)
	if err == nil {
		_, err = manifest.ParseMinor(memory.Version)
	}
	if err != nil {
		s.forgotKubelet(from, err)
		return nil
	}
	return memory
}

func (s *state) forgotKubelet(file string, err error) {
	s.recovered.Problems = append(s.recovered.Problems, store.Problem{
		File: file, Err: fmt.Errorf("reading the version of the kubelet: %w: if static pods have other UIDs now, set --kubelet-version", err),
	})
}

// restoredUIDs returns the UIDs of the restored static pods, with their names.
func (s *state) restoredUIDs() map[types.UID]types.NamespacedName {
	uids := make(map[types.UID]types.NamespacedName)
	for name, r := range s.restored {
		if config.SourceKind(name) == config.ApiserverSource {
			continue
		}
		for _, pod := range r.Pods {
			uids[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		}
	}
	return uids
}

// rememberKubelet stores what is known about the kubelet with the journal: it decides the UIDs of the pods in it.
func (s *state) rememberKubelet(m *kubelet.Memory) {
	data, _ := json.Marshal(m) // it has only texts
	s.log.Remember(string(data))
}

// setNode takes the Node of the apiserver; nil if it has none.
func (d *Daemon) setNode(node *v1.Node) {
	d.self.setRemote(node)
	if node == nil {
		node = new(v1.Node)
	}
	d.kubelet.SetNode(node.Status.NodeInfo.KubeletVersion)
	d.kubelet.SetReady(readyCondition(node))
}

// readyCondition returns the Ready condition; nil if there is none.
func readyCondition(node *v1.Node) *v1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c
		}
	}
	return nil
}

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
