package daemon

import (
	"fmt"
	"iter"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
	"github.com/podconfigd/podconfigd/pkg/sources/http"
)

// sourceSpec is the configuration of one source.
type sourceSpec struct {
	name string
	// field is the field that adds the source. Errors name it.
	field FieldName
	// options are file.Options, http.Options or apiserver.Options. Only the fields that come from the configuration
	// are set.
	options any
}

// specs returns the configured sources: the file sources, the HTTP sources and the apiserver.
func (c *Config) specs() (specs []sourceSpec) {
	add := func(name string, field FieldName, options any) {
		specs = append(specs, sourceSpec{name, field, options})
	}
	for field, f := range c.fileSources() {
		name := config.NamedSource(config.FileSource, f.Name)
		add(name, field, file.Options{Name: name, Path: f.Path, Period: c.FileCheckFrequency.Duration, Ignore: c.ignored()})
	}
	for field, h := range c.httpSources() {
		name := config.NamedSource(config.HTTPSource, h.Name)
		add(name, field, http.Options{
			Name: name, URL: h.URL, Header: toHeader(h.Header), Period: c.HTTPCheckFrequency.Duration,
			CAFile: h.CAFile, CertFile: h.CertFile, KeyFile: h.KeyFile, BearerTokenFile: h.TokenFile,
		})
	}
	if c.apiserver() {
		add(config.ApiserverSource, "kubeconfig", apiserver.Options{
			Kubeconfig: c.Kubeconfig, KeepManagedFields: c.KeepManagedFields, NamespaceMetadata: c.NamespaceMetadata,
		})
	}
	return specs
}

// ignored returns the patterns of files that are not read. Each of the list can have several, with commas in between.
func (c *Config) ignored() (patterns []string) {
	for _, list := range c.IgnoreManifests {
		patterns = append(patterns, strings.Split(list, ",")...)
	}
	return patterns
}

// fileSources returns all file sources with their fields. The source without a name is first.
func (c *Config) fileSources() iter.Seq2[FieldName, v1alpha1.FileSource] {
	return func(yield func(FieldName, v1alpha1.FileSource) bool) {
		if c.StaticPodPath != "" && !yield("staticPodPath", v1alpha1.FileSource{Path: c.StaticPodPath}) {
			return
		}
		for i, f := range c.FileSources {
			if !yield(indexed("fileSources", i), f) {
				return
			}
		}
	}
}

// httpSources returns all HTTP sources with their fields. The source without a name is first.
func (c *Config) httpSources() iter.Seq2[FieldName, v1alpha1.HTTPSource] {
	unnamed := v1alpha1.HTTPSource{
		URL: c.StaticPodURL, Header: c.StaticPodURLHeader,
		CAFile: c.StaticPodURLCAFile, CertFile: c.StaticPodURLCertFile, KeyFile: c.StaticPodURLKeyFile, TokenFile: c.StaticPodURLTokenFile,
	}
	return func(yield func(FieldName, v1alpha1.HTTPSource) bool) {
		if unnamed.URL != "" && !yield("staticPodURL", unnamed) {
			return
		}
		for i, h := range c.HTTPSources {
			if !yield(indexed("httpSources", i), h) {
				return
			}
		}
	}
}

// sources returns the names of the configured sources.
func (c *Config) sources() (names []string) {
	for _, s := range c.specs() {
		names = append(names, s.name)
	}
	return names
}

// opener makes sources.
type opener struct {
	node    types.NodeName
	decoder *manifest.Decoder
	objects apiserver.Objects
	// alone reports whether no kubelet runs on the node.
	alone func() bool
}

// open returns the source. restored is its last set.
func (o *opener) open(s sourceSpec, registry prometheus.Registerer, restored sources.Restored) (sources.Source, error) {
	switch opts := s.options.(type) {
	case file.Options:
		opts.Decoder, opts.Registerer, opts.Restored, opts.Alone = o.decoder, registry, restored, o.alone
		return file.New(opts), nil
	case http.Options:
		opts.Decoder, opts.Registerer, opts.Restored = o.decoder, registry, restored
		return http.New(opts)
	case apiserver.Options:
		opts.Node, opts.Registerer, opts.Objects, opts.UserAgent = o.node, registry, o.objects, userAgent()
		return apiserver.New(opts), nil
	}
	return nil, fmt.Errorf("source %s has options of type %T", s.name, s.options)
}

// validateSources checks the names of the sources and their places.
func (c *Config) validateSources(found *faults) {
	specs := c.specs()
	if len(specs) == 0 {
		found.addFault("", "no source of pods: set %v, %v or %v", FieldName("staticPodPath"), FieldName("staticPodURL"), FieldName("kubeconfig"))
	}
	for _, pattern := range c.ignored() {
		if err := file.CheckPattern(pattern); err != nil {
			found.addFault("ignoreManifests", "%w", err)
		}
	}
	seen := make(map[string]bool, len(specs))
	for _, s := range specs {
		if seen[s.name] {
			found.addFault(s.field, "a second source with the name %s: give it another name", s.name)
		}
		seen[s.name] = true
		if _, own, named := strings.Cut(s.name, ":"); named && !config.IsSourceName(own) {
			found.addFault(s.field+".name", "%q is not a DNS label: expected 1 to 63 lower-case letters, digits and hyphens", own)
		}
		switch opts := s.options.(type) {
		case file.Options:
			if c.StateDir != "" && filepath.Clean(c.StateDir) == filepath.Clean(opts.Path) {
				found.addFault("stateDir", "same path as %v: set a directory without manifests", s.field)
			}
		case http.Options:
			if opts.CertFile == c.StaticPodURLCertFile && opts.KeyFile == c.StaticPodURLKeyFile {
				opts.CertFile, opts.KeyFile = "", "" // checked once for all
			}
			if _, err := http.New(opts); err != nil {
				found.addFault(s.field, "%w", s.named(err))
			}
		}
	}
}

// named returns an error that names the source, if it has a name of its own.
func (s sourceSpec) named(err error) error {
	if strings.Contains(s.name, ":") {
		return fmt.Errorf("source %s: %w", s.name, err)
	}
	return err
}
