package main

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

// source is a source as the daemon has to do with it.
type source struct {
	sources.Source
	name string
	sets chan<- config.SourceSet
}

// newSources makes the sources that the options name.
func newSources(o *daemonOptions, node types.NodeName, registry prometheus.Registerer) ([]source, error) {
	var all []source
	decoder := manifest.NewDecoder(node)
	if o.manifestPath != "" {
		s := file.New(file.Options{
			Path: o.manifestPath, Decoder: decoder, Period: o.fileCheckFrequency, Registerer: registry,
		})
		all = append(all, source{name: config.FileSource, Source: s})
	}
	if o.manifestURL != "" {
		s, err := http.New(http.Options{
			URL: o.manifestURL, Header: o.header(), Decoder: decoder, Period: o.httpCheckFrequency, Registerer: registry,
			CAFile: o.manifestURLCAFile, CertFile: o.manifestURLCert, KeyFile: o.manifestURLKey, BearerTokenFile: o.manifestURLToken,
		})
		if err != nil {
			return nil, fmt.Errorf("--manifest-url: %w", err)
		}
		all = append(all, source{name: config.HTTPSource, Source: s})
	}
	if o.apiserver() {
		s := apiserver.New(apiserver.Options{
			Kubeconfig: o.kubeconfig, Node: node, KeepManagedFields: o.keepManagedFields,
			UserAgent: "podconfigd/" + version.Get().Version, Registerer: registry,
		})
		all = append(all, source{name: config.ApiserverSource, Source: s})
	}
	return all, nil
}
