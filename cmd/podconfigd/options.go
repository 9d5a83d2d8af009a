//go:build linux

package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/cli"
	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

// daemonOptions are the flags of the daemon.
type daemonOptions struct {
	daemon.Config
	files configfile.Files
}

func newDaemonOptions() *daemonOptions {
	o := &daemonOptions{Config: daemon.Config{InCluster: apiserver.InCluster(), NotifyServiceManager: true, SocketActivation: true}}
	v1alpha1.SetDefaults_PodConfigdConfiguration(&o.PodConfigdConfiguration)
	return o
}

// addTo adds the flags to a command.
func (o *daemonOptions) addTo(cmd *cobra.Command) {
	o.addFlags(cmd.Flags())
	for i := range v1alpha1.Options {
		if option := &v1alpha1.Options[i]; len(option.Values) > 0 && option.Flag != "" {
			cli.CompleteFlag(cmd, option.Flag, option.Values...)
		}
	}
	cli.CompleteFlag(cmd, "logging-format", "text", "json")
}

func (o *daemonOptions) addFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false // those that people need first are the first
	configfile.AddFlags(flags, &o.PodConfigdConfiguration, map[string]pflag.Value{
		"pod-manifest-path": pathFlag(&o.PodConfigdConfiguration), "manifest-url": urlFlag(&o.PodConfigdConfiguration),
	})
	logsapi.AddFlags(&o.Logging, flags)
	flags.Lookup("v").Usage = "Verbosity of the log. 0 to 2147483647."
	for i := range v1alpha1.Options {
		if o := &v1alpha1.Options[i]; o.IsOfLog() {
			cli.SetSection(flags, o.Section, o.Flag)
		}
	}
	for _, name := range []string{"log-flush-frequency", "vmodule", "log-text-split-stream", "log-text-info-buffer-size", "log-json-split-stream", "log-json-info-buffer-size"} {
		if f := flags.Lookup(name); f != nil {
			f.Hidden = true
		}
	}
	flags.StringVar(&o.files.Config, "config", "",
		"Path to a configuration file of kind PodConfigdConfiguration. A flag on the command line overrides the field of the file.")
	flags.StringVar(&o.files.ConfigDir, "config-dir", "",
		"Path to a directory of files that are merged over --config, in lexical order. Each has a name that ends in .conf. Subdirectories are included. Objects are merged, and lists are replaced.")
	flags.StringVar(&o.files.KubeletConfig, "kubelet-config", "",
		"Path to a KubeletConfiguration. podconfigd uses its static pod sources, its check and sync frequencies, its container runtime endpoint and its limits of events. --config overrides them. podconfigd takes changes of the file while it runs.")
	flags.StringVar(&o.files.KubeletConfigDir, "kubelet-config-dir", "",
		"Path to the directory of drop-ins of the kubelet (its --config-dir). They are merged over --kubelet-config as the kubelet merges them.")
	cli.SetSection(flags, "Configuration file", "config", "config-dir", "kubelet-config", "kubelet-config-dir")
}

// load reads the configuration from the files and the flags. It can be called again to reload the files.
func (o *daemonOptions) load(flags *pflag.FlagSet) (*configfile.Configuration, error) {
	for i := range o.HTTPSources { // the flags apply to every URL
		h := &o.HTTPSources[i]
		h.Header, h.CAFile, h.TokenFile = o.StaticPodURLHeader, o.StaticPodURLCAFile, o.StaticPodURLTokenFile
		h.CertFile, h.KeyFile = o.StaticPodURLCertFile, o.StaticPodURLKeyFile
	}
	return configfile.Load(o.files, &configfile.Flags{Config: o.Config, Changed: flags.Changed})
}

// check loads the configuration, which must have no fault.
func (o *daemonOptions) check(flags *pflag.FlagSet) (*configfile.Configuration, error) {
	loaded, err := o.load(flags)
	if err == nil {
		err = loaded.Check()
	}
	return loaded, err
}

// start makes the daemon. The error has every fault of the configuration.
func start(loaded *configfile.Configuration) (*daemon.Daemon, error) {
	if loaded.Faulty() {
		return nil, loaded.Check()
	}
	d, err := daemon.New(loaded.Config)
	if err != nil {
		return nil, loaded.Locate(err)
	}
	return d, nil
}

// runDaemon runs the daemon until the context is done, and reloads its configuration.
func runDaemon(ctx context.Context, d *daemon.Daemon, r *reloader) error {
	running, stop := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	var others sync.WaitGroup
	others.Go(func() { r.run(running, d) })
	others.Go(func() { freeMemory(running) })
	err := d.Run(running)
	stop()
	others.Wait()
	return ended(ctx, err)
}

// startTime is how long a start takes at most, with few exceptions.
const startTime = 10 * time.Second

// freeMemory gives the memory back that only the start needed.
func freeMemory(ctx context.Context) {
	if await.For(ctx, startTime) == nil {
		runtime.GC() // what is in pools is garbage after two collections
		debug.FreeOSMemory()
	}
}

// ended returns the error, unless the context ended, which is a normal stop.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
