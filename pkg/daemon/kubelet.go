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
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// kubeletName is the name of the file in the state directory that remembers the version of the kubelet.
const kubeletName = "kubelet.json"

// beforeVersions is the version of the kubelet whose rules applied in releases that did not write that file.
const beforeVersions = "1.36"

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

// kubelet returns what is remembered about the kubelet; nil if nothing is. If the file can't be read, report logs
// the problem.
func (s *state) kubelet() *kubelet.Memory {
	if s.log == nil {
		return nil
	}
	path := filepath.Join(s.dir, kubeletName)
	data, err := smallfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if len(s.recovered.Sources) > 0 {
			return &kubelet.Memory{Version: beforeVersions}
		}
		return nil
	}
	memory := new(kubelet.Memory)
	if err == nil {
		err = json.Unmarshal(data, memory)
	}
	if err == nil {
		_, err = manifest.ParseMinor(memory.Version)
	}
	if err != nil {
		s.recovered.Problems = append(s.recovered.Problems, store.Problem{
			File: kubeletName, Err: fmt.Errorf("reading the version of the kubelet: %w: if static pods have other UIDs now, set --kubelet-version", err),
		})
		return nil
	}
	return memory
}

// restoredUIDs returns the UIDs of the restored pods of all sources.
func (s *state) restoredUIDs() map[types.UID]bool {
	uids := make(map[types.UID]bool)
	for _, r := range s.restored {
		for _, pod := range r.Pods {
			uids[pod.UID] = true
		}
	}
	return uids
}

// rememberKubelet writes what is known about the kubelet.
func (s *state) rememberKubelet(m kubelet.Memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return smallfile.Replace(filepath.Join(s.dir, kubeletName), string(data)+"\n")
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
