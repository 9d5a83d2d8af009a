package main

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
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
	name string
	run  func(ctx context.Context, sets chan<- config.SourceSet) error
	// status adds what the source knows of itself.
	status func(into *v1alpha1.SourceStatus)
	sets   chan<- config.SourceSet
}

// newSources makes the sources that the options name.
func newSources(o *daemonOptions, node types.NodeName, registry prometheus.Registerer) ([]source, error) {
	var all []source
	decoder := manifest.NewDecoder(node)
	if o.manifestPath != "" {
		s := file.New(file.Options{
			Path: o.manifestPath, Decoder: decoder, Period: o.fileCheckFrequency, Registerer: registry,
		})
		all = append(all, source{name: config.FileSource, run: s.Run, status: func(into *v1alpha1.SourceStatus) {
			fileStatus(into, s.Status())
		}})
	}
	if o.manifestURL != "" {
		s, err := http.New(http.Options{
			URL: o.manifestURL, Header: o.header(), Decoder: decoder, Period: o.httpCheckFrequency, Registerer: registry,
			CAFile: o.manifestURLCAFile, CertFile: o.manifestURLCert, KeyFile: o.manifestURLKey, BearerTokenFile: o.manifestURLToken,
		})
		if err != nil {
			return nil, fmt.Errorf("--manifest-url: %w", err)
		}
		all = append(all, source{name: config.HTTPSource, run: s.Run, status: func(into *v1alpha1.SourceStatus) {
			httpStatus(into, s.Status())
		}})
	}
	if o.apiserver() {
		s := apiserver.New(apiserver.Options{
			Kubeconfig: o.kubeconfig, Node: node, KeepManagedFields: o.keepManagedFields,
			UserAgent: "podconfigd/" + version.Get().Version, Registerer: registry,
		})
		all = append(all, source{name: config.ApiserverSource, run: s.Run, status: func(into *v1alpha1.SourceStatus) {
			apiserverStatus(into, s.Status())
		}})
	}
	return all, nil
}

func fileStatus(into *v1alpha1.SourceStatus, from file.Status) {
	condition(into, from.Condition)
	into.File = &v1alpha1.FileStatus{
		Path: from.Path, Absent: from.Absent, Watch: from.Watch, WatchError: from.WatchError,
		Overflows: from.Overflows, Settling: from.Settling, Manifests: manifests(from.Manifests),
	}
}

func httpStatus(into *v1alpha1.SourceStatus, from http.Status) {
	condition(into, from.Condition)
	into.HTTP = &v1alpha1.HTTPStatus{URL: from.URL, LastSuccess: from.LastSuccess, Manifests: manifests(from.Manifests)}
}

func apiserverStatus(into *v1alpha1.SourceStatus, from apiserver.Status) {
	condition(into, from.Condition)
	into.API = &v1alpha1.APIStatus{
		Server: from.Server, NodeKnown: from.NodeKnown, Connected: from.Connected,
		LastList: from.LastList, LastEvent: from.LastEvent, Relists: from.Relists, WatchRestarts: from.WatchRestarts,
	}
}

func condition(into *v1alpha1.SourceStatus, from sources.Condition) {
	into.Degraded, into.DegradedSince, into.LastError = from.Degraded, from.DegradedSince, from.LastError
	into.LastChange = from.LastChange
}

func manifests(verdicts []sources.Verdict) []v1alpha1.Manifest {
	all := make([]v1alpha1.Manifest, len(verdicts))
	for i, v := range verdicts {
		all[i] = v1alpha1.Manifest{
			Path: v.Path, State: string(v.State), Namespace: v.Namespace, Name: v.Name, UID: v.UID,
			Reason: v.Reason, Message: v.Message, Warnings: v.Warnings,
		}
	}
	return all
}
