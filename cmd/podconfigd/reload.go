package main

import (
	"context"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// followPeriod is the interval at which the files of the kubelet are read again.
const followPeriod = 2 * time.Second

// reloader loads the configuration again at each SIGHUP, and when the files of the kubelet change. Signals that come during a
// reload cause one more.
type reloader struct {
	hups <-chan os.Signal
	load func() (*configfile.Configuration, error)
	// loaded is the configuration that was taken last. pending has changed files of the kubelet, and refused means that the
	// daemon did not take them. What a signal could not reload stays refused until the next reload.
	loaded, pending *configfile.Configuration
	refused         bool
	// logging is the configuration of the log that is in effect.
	logging logsapi.LoggingConfiguration

	reloads             *prometheus.CounterVec
	successful, success prometheus.Gauge
}

func newReloader(hups <-chan os.Signal, reg prometheus.Registerer, loaded *configfile.Configuration, load func() (*configfile.Configuration, error)) *reloader {
	in := metric.In(reg, "config")
	r := &reloader{
		hups: hups, load: load, loaded: loaded, logging: loaded.Logging,
		reloads:    in.CounterVec("reloads_total", "Reloads of the configuration, by result.", "result", "success", "failure"),
		successful: in.Gauge("last_reload_successful", "1 if the last attempt to load the configuration succeeded."),
		success:    in.Gauge("last_reload_success_timestamp_seconds", "Unix time at which the configuration was last loaded without a fault."),
	}
	r.successful.Set(1)
	r.success.SetToCurrentTime()
	return r
}

// run reloads the configuration until the context is done.
func (r *reloader) run(ctx context.Context, d *daemon.Daemon) {
	ticker := time.NewTicker(followPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hups:
			r.signaled(ctx, d)
		case <-ticker.C:
			r.follow(ctx, d)
		}
	}
}

// signaled loads all files. If those of the kubelet alone can't be used either, they are refused until they change.
func (r *reloader) signaled(ctx context.Context, d *daemon.Daemon) {
	r.pending, r.refused = nil, false
	loaded, err := r.load()
	if r.reload(ctx, d, loaded, err) {
		return
	}
	if next, err := r.loaded.Follow(); next != nil && (err != nil || next.Check() != nil) {
		r.pending, r.refused = next, true
	}
}

// follow takes changed files of the kubelet, once they are the same at two readings: a program may be writing them.
func (r *reloader) follow(ctx context.Context, d *daemon.Daemon) {
	next, err := r.loaded.Follow()
	switch {
	case next == nil:
		if r.refused {
			d.Refused(nil)
			r.successful.Set(1)
			klog.FromContext(ctx).Info("The change of the configuration of the kubelet was taken back")
		}
		r.pending, r.refused = nil, false
	case r.pending == nil || !r.pending.SameKubelet(next):
		r.pending, r.refused = next, false
	case !r.refused:
		klog.FromContext(ctx).Info("The configuration of the kubelet has changed")
		r.refused = !r.reload(ctx, d, next, err)
	}
}

// reload takes a configuration, unless there is an error, and logs one line: what changed and what needs a restart, or
// why nothing changed. It reports whether the configuration is taken.
func (r *reloader) reload(ctx context.Context, d *daemon.Daemon, loaded *configfile.Configuration, err error) bool {
	done := d.Reloading(ctx)
	defer done()
	logger := klog.FromContext(ctx)
	var changed, needRestart []string
	if err == nil {
		changed, needRestart, err = r.apply(ctx, d, loaded)
	}
	if err == nil {
		r.loaded, r.pending = loaded, nil
	}
	if ctx.Err() == nil {
		d.Refused(err)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.reloads.WithLabelValues("failure").Inc()
		r.successful.Set(0)
		logger.Error(err, "Could not reload the configuration, nothing has changed")
	default:
		r.reloads.WithLabelValues("success").Inc()
		r.successful.Set(1)
		r.success.SetToCurrentTime()
		logger.Info("Reloaded the configuration", "changed", changed, "needRestart", needRestart)
	}
	return err == nil
}

// apply gives the daemon the configuration, and returns the fields that changed, and those that need a
// restart, by their paths in the config file.
func (r *reloader) apply(ctx context.Context, d *daemon.Daemon, loaded *configfile.Configuration) (changed, needRestart []string, err error) {
	if loaded.Faulty() {
		return nil, nil, loaded.Check()
	}
	result, err := d.Reload(ctx, &loaded.Config)
	if err != nil {
		return nil, nil, loaded.Locate(err)
	}
	changed, needRestart = append([]string{}, result.Changed...), append([]string{}, result.NeedRestart...) // none is [] in the log
	if v := loaded.Logging.Verbosity; v != r.logging.Verbosity {
		if _, err := logs.GlogSetter(strconv.FormatUint(uint64(v), 10)); err != nil {
			return nil, nil, err
		}
		r.logging.Verbosity = v
		changed = append(changed, "logging.verbosity")
	}
	if !reflect.DeepEqual(loaded.Logging, r.logging) {
		needRestart = append(needRestart, "logging")
	}
	return changed, needRestart, nil
}
