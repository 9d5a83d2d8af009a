package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/lookup"
)

// listDevices makes the part that asks the kubelet for the devices of containers, and gives them to lookups; nothing if it is off.
func (d *Daemon) listDevices(find *lookup.Options, registry prometheus.Registerer) []part {
	path := *d.config.PodResourcesSocket
	if path == devices.None {
		return nil
	}
	opts := devices.Options{Path: path, Journal: d.journal, Registerer: registry, Listed: func() { d.containers.Listed() }}
	if d.runtime != nil {
		opts.Runtime = d.runtime.generator.Pods
	}
	d.devices = devices.New(opts)
	find.Devices = d.devices.Table
	return []part{{
		name: "devices", run: d.devices.Run,
		status: func(status *v1alpha1.Status) { status.Devices = d.devices.Status() },
	}}
}

// runtimeChanged tells the parts that use the runtime that its pods have changed.
func (d *Daemon) runtimeChanged() {
	d.kubelet.Notice()
	if d.devices != nil {
		d.devices.Notice()
	}
}
