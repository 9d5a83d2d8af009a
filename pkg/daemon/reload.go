package daemon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/server"
)

// ErrNotRunning is returned by Reload after Run has returned.
var ErrNotRunning = errors.New("the daemon is not running")

// reloads has all fields of Config. The value is the part of the daemon that takes a change
// while it runs, or onlyAtStart.
var reloads = map[FieldName]part{
	"StaticPodPath": sourcesPart, "FileSources": sourcesPart, "FileCheckFrequency": sourcesPart,
	"StaticPodURL": sourcesPart, "StaticPodURLHeader": sourcesPart, "StaticPodURLCAFile": sourcesPart,
	"StaticPodURLCertFile": sourcesPart, "StaticPodURLKeyFile": sourcesPart, "StaticPodURLTokenFile": sourcesPart,
	"HTTPSources": sourcesPart, "HTTPCheckFrequency": sourcesPart,
	"KeepManagedFields": sourcesPart,
	"RemovalBrake":      brakePart,
	"PLEGRelistPeriod":  plegPart, "PLEGRelistThreshold": plegPart,
	"SyncFrequency":  loopPart,
	"EventRecordQPS": eventsPart, "EventBurst": eventsPart,
	"Access":         accessPart,
	"MaxSubscribers": limitsPart, "MaxSubscribersPerProcess": limitsPart,
	"JournalMaxUpdates": journalPart, "JournalMaxBytes": journalPart,
	"StateMaxAge": statePart, "StateMaxBytes": statePart,

	// The clients of the apiserver for nodes, namespaces, and for authentication are made at
	// the start.
	"Kubeconfig": onlyAtStart, "InCluster": onlyAtStart, "NamespaceMetadata": onlyAtStart,
	"CreateMirrorPods": onlyAtStart,
	"NodeName":         onlyAtStart, "NodeIP": onlyAtStart,
	"KubeletVersion": onlyAtStart, "KubeletPresence": onlyAtStart,
	"ContainerRuntimeEndpoint": onlyAtStart, "ContainerRuntimeEvents": onlyAtStart,
	"RuntimeStatus": onlyAtStart, "RuntimeStatusAPIPods": onlyAtStart,
	"Socket": onlyAtStart, "SocketMode": onlyAtStart, "SocketGroup": onlyAtStart, "PodsAPISocket": onlyAtStart,
	"MetricsBindAddress": onlyAtStart, "Listen": onlyAtStart,
	"TLSCertFile": onlyAtStart, "TLSPrivateKeyFile": onlyAtStart, // the content of the files is reloaded
	"Authentication": onlyAtStart, "Authorization": onlyAtStart,
	"StateDir":             onlyAtStart,
	"Tracing":              onlyAtStart,
	"NotifyServiceManager": onlyAtStart, "SocketActivation": onlyAtStart, "Collectors": onlyAtStart,
}

// part is a part of the daemon that takes changes of the configuration while it runs.
type part int

const (
	onlyAtStart part = iota
	sourcesPart
	brakePart
	plegPart
	loopPart
	eventsPart
	accessPart
	limitsPart
	journalPart
	statePart
)

// Reloaded is the result of Reload, in the order of Fields.
type Reloaded struct {
	// Changed are the fields that changed and are in effect.
	Changed []FieldName
	// NeedRestart are the fields that differ from what the daemon runs with and take effect
	// only at a start.
	NeedRestart []FieldName
}

// Reload changes the configuration while Run runs. Fields that can't change while it runs stay
// as they are, and are listed. If the configuration is not valid, nothing changes, and the
// error lists every fault. Before Run has started, Reload waits for it. Reloads run one after
// the other. If the context ends first, the reload completes nevertheless.
//
// A source that is no longer configured is removed with its pods. A source whose configuration
// changed keeps its pods until its first set with the new one. A new source is not seen before
// its first set. Until then, the daemon is not ready, and there is no HOUSEKEEPING.
func (d *Daemon) Reload(ctx context.Context, c *Config) (Reloaded, error) {
	if err := c.Validate(); err != nil {
		return Reloaded{}, err
	}
	var result Reloaded
	err := d.sources.call(ctx, func(ctx context.Context) error {
		next, reloaded, parts := d.current.merged(c)
		if err := next.Validate(); err != nil { // for example the only source left needs a restart
			return fmt.Errorf("the changes need a restart, because they depend on %s: %w", listed(reloaded.NeedRestart), err)
		}
		if err := d.apply(ctx, &next, parts); err != nil {
			return err
		}
		d.current, result = next, reloaded
		return nil
	})
	if err != nil {
		return Reloaded{}, err
	}
	return result, nil
}

// merged returns the configuration with the changes to c that can be made now.
func (c *Config) merged(to *Config) (next Config, reloaded Reloaded, parts map[part]bool) {
	next, parts = *c, make(map[part]bool)
	into, from := reflect.ValueOf(&next).Elem(), reflect.ValueOf(to).Elem()
	for _, field := range fields {
		before, after := fieldOf(into, field.Name), fieldOf(from, field.Name)
		if same(before, after) {
			continue
		}
		p := reloads[top(field.Name)]
		if p == onlyAtStart {
			reloaded.NeedRestart = append(reloaded.NeedRestart, field.Name)
			continue
		}
		parts[p] = true
		reloaded.Changed = append(reloaded.Changed, field.Name)
		before.Set(after)
	}
	return next, reloaded, parts
}

// listed returns the fields, by their paths in the config file.
func listed(names []FieldName) string {
	paths := make([]string, len(names))
	for i, name := range names {
		field, _ := name.Field()
		paths[i] = field.Path
	}
	return strings.Join(paths, ", ")
}

// top returns the field of Config that has the field.
func top(name FieldName) FieldName {
	field, _, _ := strings.Cut(string(name), ".")
	return FieldName(field)
}

func fieldOf(config reflect.Value, name FieldName) reflect.Value {
	for part := range strings.SplitSeq(string(name), ".") {
		config = config.FieldByName(part)
	}
	return config
}

// same reports whether two values of a field are equal. An empty list is equal to none.
func same(a, b reflect.Value) bool {
	switch a.Kind() { //nolint:exhaustive // all others have no length
	case reflect.Slice, reflect.Map:
		if a.Len() == 0 && b.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// apply makes the changes of the parts, in the goroutine of sources.run. Its error is the cause
// of the context.
func (d *Daemon) apply(ctx context.Context, c *Config, parts map[part]bool) error {
	specs := c.specs()
	if parts[sourcesPart] { // first: new rules must not show the pods of a source that ends, nor a new limit apply its held set
		if err := d.sources.retire(ctx, specs); err != nil {
			return err
		}
		if err := d.journal.WaitSources(ctx, c.sources()); err != nil {
			return err
		}
	}
	if parts[accessPart] {
		d.setAccess(klog.FromContext(ctx), c.Access)
	}
	if parts[brakePart] {
		if err := d.podConfig.SetRemovalLimit(ctx, c.removalLimit()); err != nil {
			return err
		}
	}
	if parts[limitsPart] || parts[sourcesPart] { // each source has descriptors that connections never take
		d.server.SetLimits(c.limits())
	}
	if parts[sourcesPart] { // after the rules: a new source must not be shown to those who may not see it
		if err := d.sources.begin(ctx, specs); err != nil {
			return err
		}
	}
	if parts[loopPart] {
		if err := d.loop.SetSyncFrequency(ctx, c.SyncFrequency); err != nil {
			return err
		}
	}
	if parts[plegPart] {
		d.runtime.setPeriods(ctx, c)
	}
	if parts[eventsPart] {
		d.events.setLimits(c)
	}
	if parts[journalPart] {
		d.journal.SetLimits(c.JournalMaxUpdates, c.JournalMaxBytes)
	}
	if parts[statePart] {
		d.state.setLimits(c)
	}
	return nil
}

// limits returns the limits of the server.
func (c *Config) limits() server.Limits {
	return server.Limits{
		Subscribers: c.MaxSubscribers, SubscribersPerPeer: c.MaxSubscribersPerProcess,
		Network:     c.listensOn(server.SchemeHTTP, server.SchemeHTTPS),
		Descriptors: max(1, descriptorLimit()-reservedDescriptors-descriptorsPerSource*(len(c.FileSources)+len(c.HTTPSources))),
	}
}
