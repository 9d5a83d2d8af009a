// Package configfile loads the configuration of the daemon from files and flags.
//
//	config, err := configfile.Load(configfile.Files{Config: "podconfigd.yaml"}, flags)
//	if err == nil {
//		err = config.Check()
//	}
//
// A file gives a layer of values. Layers are merged as the kubelet merges its drop-ins: with
// a JSON merge patch, which merges objects and replaces lists. From the weakest to the
// strongest, the layers are: the defaults, the file of --kubelet-config, the file of --config,
// the files of --config-dir in lexical order, and the flags on the command line.
//
// Load keeps nothing of the files but the configuration and the lines of its values.
package configfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/option"
	"github.com/podconfigd/podconfigd/pkg/config"
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

// addFlags adds the flags of all options, except the options of the log. The flags set fields of config, which has all
// defaults. own has the values of flags that set more than one field.
func addFlags(flags *pflag.FlagSet, config *v1alpha1.PodConfigdConfiguration, own map[string]pflag.Value) {
	for i := range v1alpha1.Options {
		o := &v1alpha1.Options[i]
		if o.Flag == "" || flags.Lookup(o.Flag) != nil || o.IsOfLog() { // or it is the flag of another field
			continue
		}
		switch value := own[o.Flag]; {
		case value != nil:
			flags.Var(value, o.Flag, o.Help)
		default:
			bind(flags, o, o.In(config).Addr().Interface())
		}
		setSection(flags, o.Section, o.Flag)
	}
}

// setSection puts flags under a heading of the help.
func setSection(flags *pflag.FlagSet, section string, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, option.SectionKey, []string{section}) // fails only if there is no such flag
	}
}

// bind adds the flag of an option. field is a pointer to the field that it sets.
func bind(flags *pflag.FlagSet, o *option.Option, field any) {
	switch p := field.(type) {
	case *string:
		flags.StringVar(p, o.Flag, *p, o.Help)
	case **string:
		flags.StringVar(*p, o.Flag, **p, o.Help)
	case *bool:
		flags.BoolVar(p, o.Flag, *p, o.Help)
	case **bool:
		flags.BoolVar(*p, o.Flag, **p, o.Help)
	case **int32:
		flags.Int32Var(*p, o.Flag, **p, o.Help)
	case **int64:
		flags.Int64Var(*p, o.Flag, **p, o.Help)
	case **metav1.Duration:
		flags.DurationVar(&(*p).Duration, o.Flag, (*p).Duration, o.Help)
	case *[]string:
		flags.StringArrayVar(p, o.Flag, *p, o.Help)
	case *map[string][]string:
		flags.Var(cliflag.NewColonSeparatedMultimapStringString(p), o.Flag, o.Help)
	case **intstr.IntOrString:
		flags.Var(intOrString{p}, o.Flag, o.Help)
	default:
		panic(fmt.Sprintf("%s has type %v, for which there is no flag", o.Path, reflect.TypeOf(field).Elem()))
	}
}

// intOrString is the value of a flag that is a number, or a text such as 50%. Empty is none.
type intOrString struct{ value **intstr.IntOrString }

func (v intOrString) String() string {
	if v.value == nil || *v.value == nil {
		return ""
	}
	return (*v.value).String()
}

// Set takes a number or a text.
func (v intOrString) Set(text string) error {
	*v.value = nil
	if text != "" {
		*v.value = new(intstr.Parse(text))
	}
	return nil
}

// Type is the name of the value in the help.
func (v intOrString) Type() string { return "string" }

// sourceFlag is the value of a flag that can be repeated, once for each source.
type sourceFlag struct {
	// kind is the kind of the sources, place what the flag sets of each.
	kind, place string
	// unnamed is the place of the source without a name.
	unnamed *string
	// add adds a source with a name.
	add func(name, place string)
	// values are the arguments of the flag, in their order.
	values []string
}

func (f *sourceFlag) String() string { return strings.Join(f.values, ",") }

// Type is the name of the value in the help.
func (f *sourceFlag) Type() string { return "[NAME=]" + f.place }

// Set adds a source.
func (f *sourceFlag) Set(value string) error {
	name, place := config.SplitSource(value)
	switch {
	case place == "" && name != "":
		return fmt.Errorf("source %s has no %s", config.NamedSource(f.kind, name), f.place)
	case slices.ContainsFunc(f.values, func(other string) bool { n, _ := config.SplitSource(other); return n == name }):
		if name == "" {
			return fmt.Errorf("a second %s without a name: give it one, as NAME=%s", f.place, f.place)
		}
		return fmt.Errorf("a second %s with the name %q: give it another name", f.place, name)
	case name == "":
		*f.unnamed = place
	default:
		f.add(name, place)
	}
	f.values = append(f.values, value)
	return nil
}

// pathFlag returns the value of --pod-manifest-path.
func pathFlag(c *v1alpha1.PodConfigdConfiguration) *sourceFlag {
	return &sourceFlag{
		kind: config.FileSource, place: "PATH", unnamed: &c.StaticPodPath,
		add: func(name, place string) {
			c.FileSources = append(c.FileSources, v1alpha1.FileSource{Name: name, Path: place})
		},
	}
}

// urlFlag returns the value of --manifest-url.
func urlFlag(c *v1alpha1.PodConfigdConfiguration) *sourceFlag {
	return &sourceFlag{
		kind: config.HTTPSource, place: "URL", unnamed: &c.StaticPodURL,
		add: func(name, place string) {
			c.HTTPSources = append(c.HTTPSources, v1alpha1.HTTPSource{Name: name, URL: place})
		},
	}
}
