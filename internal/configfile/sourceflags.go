package configfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

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
