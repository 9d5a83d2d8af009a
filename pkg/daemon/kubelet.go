package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/manifest"
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
