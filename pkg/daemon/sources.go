package daemon

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
	"github.com/podconfigd/podconfigd/pkg/sources/http"
)

// source is a source with its name and its channel to the merge.
type source struct {
	sources.Source
	name string
	sets chan<- config.SourceSet
}

// newSources returns the sources of the configuration. restored are their sets of the time
// before a restart, by name.
func newSources(c *Config, node types.NodeName, registry prometheus.Registerer, restored map[string]sources.Restored) ([]source, error) {
	var all []source
	decoder := manifest.NewDecoder(node)
	if c.StaticPodPath != "" {
		s := file.New(file.Options{
			Path: c.StaticPodPath, Decoder: decoder, Period: c.FileCheckFrequency, Registerer: registry,
			Restored: restored[config.FileSource],
		})
		all = append(all, source{name: config.FileSource, Source: s})
	}
	if c.StaticPodURL != "" {
		s, err := http.New(http.Options{
			URL: c.StaticPodURL, Header: c.StaticPodURLHeader, Decoder: decoder, Period: c.HTTPCheckFrequency, Registerer: registry,
			CAFile: c.StaticPodURLCAFile, CertFile: c.StaticPodURLCertFile, KeyFile: c.StaticPodURLKeyFile, BearerTokenFile: c.StaticPodURLTokenFile,
			Restored: restored[config.HTTPSource],
		})
		if err != nil {
			return nil, fmt.Errorf("--manifest-url: %w", err)
		}
		all = append(all, source{name: config.HTTPSource, Source: s})
	}
	if c.apiserver() {
		s := apiserver.New(apiserver.Options{
			Kubeconfig: c.Kubeconfig, Node: node, KeepManagedFields: c.KeepManagedFields,
			UserAgent: "podconfigd/" + version.Get().Version, Registerer: registry,
		})
		all = append(all, source{name: config.ApiserverSource, Source: s})
	}
	return all, nil
}
