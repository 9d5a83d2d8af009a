package configfile

import (
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

// Options are the flags of the daemon. Both programs have them.
type Options struct {
	daemon.Config
	files Files
}

// NewOptions returns options that have the defaults.
func NewOptions() *Options {
	o := &Options{Config: daemon.Config{InCluster: apiserver.InCluster(), NotifyServiceManager: true, SocketActivation: true}}
	v1alpha1.SetDefaults_PodConfigdConfiguration(&o.PodConfigdConfiguration)
	return o
}

// AddTo adds the flags to a set.
func (o *Options) AddTo(flags *pflag.FlagSet) {
	flags.SortFlags = false // those that people need first are the first
	addFlags(flags, &o.PodConfigdConfiguration, map[string]pflag.Value{
		"pod-manifest-path": pathFlag(&o.PodConfigdConfiguration), "manifest-url": urlFlag(&o.PodConfigdConfiguration),
	})
	logsapi.AddFlags(&o.Logging, flags)
	flags.Lookup("v").Usage = "Verbosity of the log. 0 to 2147483647."
	for i := range v1alpha1.Options {
		if o := &v1alpha1.Options[i]; o.IsOfLog() {
			setSection(flags, o.Section, o.Flag)
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
	setSection(flags, "Configuration file", "config", "config-dir", "kubelet-config", "kubelet-config-dir")
}

// Load reads the configuration from the files and the flags. It can be called again to reload the files.
func (o *Options) Load(flags *pflag.FlagSet) (*Configuration, error) {
	for i := range o.HTTPSources { // the flags apply to every URL
		h := &o.HTTPSources[i]
		h.Header, h.CAFile, h.TokenFile = o.StaticPodURLHeader, o.StaticPodURLCAFile, o.StaticPodURLTokenFile
		h.CertFile, h.KeyFile = o.StaticPodURLCertFile, o.StaticPodURLKeyFile
	}
	return Load(o.files, &Flags{Config: o.Config, Changed: flags.Changed})
}

// Check loads the configuration, which must have no fault.
func (o *Options) Check(flags *pflag.FlagSet) (*Configuration, error) {
	loaded, err := o.Load(flags)
	if err == nil {
		err = loaded.Check()
	}
	return loaded, err
}
