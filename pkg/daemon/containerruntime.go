package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/containers"
	"github.com/podconfigd/podconfigd/pkg/devices"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/pleg/cri"
	"github.com/podconfigd/podconfigd/pkg/pleg/recorder"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// runtime connects the daemon to the container runtime.
type runtime struct {
	endpoint  string
	events    bool
	client    *cri.Runtime
	generator *pleg.Generator
	recorder  *recorder.Recorder
	// orphans returns the result of the last housekeeping.
	orphans func() syncloop.Orphans
}

// newRuntime returns the runtime; nil if none is configured. changed is called when the pods of the runtime change.
func newRuntime(c *Config, registry prometheus.Registerer, changed func()) (*runtime, error) {
	if c.ContainerRuntimeEndpoint == "" {
		return nil, nil //nolint:nilnil // there is none, and nothing is wrong
	}
	client, err := cri.New(c.ContainerRuntimeEndpoint)
	if err != nil {
		return nil, fmt.Errorf("--container-runtime-endpoint: %w", err)
	}
	generator := pleg.New(pleg.Options{
		Runtime: client, RelistOnly: !*c.ContainerRuntimeEvents,
		RelistPeriod: c.PLEGRelistPeriod.Duration, RelistThreshold: c.PLEGRelistThreshold.Duration, Emitted: changed, Registerer: registry,
		Retention: c.EndedPodsRetention.Duration, MaxRemoved: max(1, int(*c.EndedPodsMax)/removedShare),
	})
	r := &runtime{
		endpoint: c.ContainerRuntimeEndpoint, events: *c.ContainerRuntimeEvents, client: client, generator: generator,
		recorder: recorder.New(recorder.Options{Reader: client, Pod: generator.Pod}),
	}
	metric.In(registry, "pleg").GaugeFunc("uninspected_pods", "Number of pods that the container runtime lists and does not describe. Their status is of before.", func() float64 {
		return float64(len(r.uninspected()))
	})
	return r, nil
}

// part returns the part that follows the runtime.
func (r *runtime) part() part {
	return part{
		name: "pleg",
		run: func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return r.generator.Run(ctx) })
			group.Go(func() error { return r.recorder.Run(ctx) })
			return group.Wait()
		},
		apply: func(ctx context.Context, c *Config) error {
			r.generator.SetPeriods(ctx, c.PLEGRelistPeriod.Duration, c.PLEGRelistThreshold.Duration)
			return nil
		},
		status: r.status,
	}
}

// check returns why the runtime is unhealthy, or nil.
func (r *runtime) check() error {
	_, err := r.generator.Healthy()
	return err
}

// connect gives the runtime to the parts that use it.
func (r *runtime) connect(loop *syncloop.Options, find *lookup.Options, serve *server.Options) {
	loop.PLEG = r.generator
	if loop.Status.Sources != nil {
		loop.Status.Records = r.recorder
	}
	find.Runtime, serve.Runtime = r.generator, r.pods
}

// streamContainers makes the part that has the stream of containers; nothing without a runtime.
func (d *Daemon) streamContainers(serve *server.Options, registry prometheus.Registerer) []part {
	if d.runtime == nil {
		return nil
	}
	d.containers = containers.New(containers.Options{Runtime: d.runtime.generator, Journal: d.journal, Lookup: serve.Lookup, Registerer: registry})
	serve.Containers = d.containers
	return []part{{name: "containers", run: d.containers.Run}}
}

func (r *runtime) close() {
	if r != nil {
		_ = r.client.Close() // fails only if it is already closed
	}
}

// statusOptions returns which pods get a status from the runtime. hostIPs returns the addresses of the node,
// and minor the version of its kubelet.
func (c *Config) statusOptions(hostIPs func() []string, minor func() int) syncloop.StatusOptions {
	if !*c.RuntimeStatus {
		return syncloop.StatusOptions{}
	}
	opts := syncloop.StatusOptions{Sources: []string{config.FileSource, config.HTTPSource}, NodeIPs: hostIPs, Minor: minor}
	if c.RuntimeStatusAPIPods {
		opts.Sources = append(opts.Sources, config.ApiserverSource)
	}
	return opts
}

// removedShare is the number of pods that ended for each container that the runtime removed. The last status of a pod has most of
// its containers.
const removedShare = 4

// addressProblem adds a problem if the statuses of pods have no address of the node.
func (d *Daemon) addressProblem(status *v1alpha1.Status) {
	if c := &d.config; c.ContainerRuntimeEndpoint == "" || !*c.RuntimeStatus || len(d.self.hostIPs()) > 0 {
		return
	}
	if problem := d.self.addresses.problem(); problem != "" {
		status.Problems = append(status.Problems, problem)
	}
}

// status adds the status of the runtime.
func (r *runtime) status(status *v1alpha1.Status) {
	s := r.generator.Status()
	healthy, _ := r.generator.Healthy()
	status.Runtime = &v1alpha1.RuntimeStatus{
		Endpoint: r.endpoint, Events: s.Evented, EventsError: s.StreamError, Healthy: healthy,
		LastRelist: s.LastRelist, LastError: s.LastError, Relists: s.Relists, RelistErrors: s.RelistErrors,
		RelistP50Seconds: s.P50.Seconds(), RelistP99Seconds: s.P99.Seconds(),
		Received: s.Received, Fallbacks: s.Fallbacks, Emitted: make(map[string]int64, len(s.Events)),
		Pods: s.Pods, Containers: s.Containers,
	}
	orphans := r.orphans()
	status.Runtime.Orphans, status.Runtime.OrphansWaiting = orphans.Pods, orphans.Waiting
	since := r.uninspected()
	status.Runtime.Uninspected = len(since)
	for _, at := range since {
		if first := status.Runtime.UninspectedSince; first == nil || at.Before(*first) {
			status.Runtime.UninspectedSince = &at
		}
	}
	if !r.events {
		status.Runtime.EventsError = "turned off with --container-runtime-events=false"
	}
	for kind, n := range s.Events {
		status.Runtime.Emitted[string(kind)] = n
	}
}

// pods returns the pods of the runtime.
func (r *runtime) pods() v1alpha1.RuntimePods {
	pods, _ := r.generator.Pods()
	all := v1alpha1.RuntimePods{Pods: make([]v1alpha1.RuntimePod, len(pods))}
	since := r.uninspected()
	for i, p := range pods {
		all.Pods[i] = runtimePod(p)
		if at, uninspected := since[p.UID]; uninspected {
			all.Pods[i].UninspectedSince = &at
		}
	}
	return all
}

// uninspected returns the pods that the runtime lists and does not describe, and since when.
func (r *runtime) uninspected() map[types.UID]time.Time {
	since := r.generator.Uninspected()
	for uid, at := range r.recorder.Uninspected() {
		if first, known := since[uid]; !known || at.Before(first) {
			since[uid] = at
		}
	}
	return since
}

func runtimePod(p *pleg.Pod) v1alpha1.RuntimePod {
	pod := v1alpha1.RuntimePod{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Source: p.Source}
	newest := make(map[string]*pleg.Container)
	var sandbox *pleg.Container
	newer := func(c, than *pleg.Container) bool { return than == nil || c.Attempt >= than.Attempt } // a clock can be set back
	for i := range p.Containers {                                                                   // the oldest first
		switch c := &p.Containers[i]; {
		case c.Sandbox && newer(c, sandbox):
			sandbox, pod.CreatedAt = c, &c.CreatedAt
		case !c.Sandbox && newer(c, newest[c.Name]):
			newest[c.Name] = c
		}
	}
	pod.Containers = make([]v1alpha1.RuntimeContainer, 0, len(newest))
	for name, c := range newest {
		if c.State == pleg.StateRunning {
			pod.Ready++
		}
		pod.Restarts += int(c.Attempt)
		pod.Containers = append(pod.Containers, v1alpha1.RuntimeContainer{
			ID: c.ID, Name: name, State: c.State.String(), ExitCode: c.ExitCode, Restarts: int(c.Attempt),
		})
	}
	slices.SortFunc(pod.Containers, func(a, b v1alpha1.RuntimeContainer) int { return cmp.Compare(a.Name, b.Name) })
	return pod
}

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
