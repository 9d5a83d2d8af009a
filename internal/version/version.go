// Package version says which podconfigd this is.
package version

import (
	"runtime"
	"runtime/debug"
)

// version is set when the binary is linked.
var version = ""

// Info is what is known of the binary.
type Info struct {
	// Version is the release or commit.
	Version string `json:"version"`
	// Kubernetes is the release whose rules for pods are built in.
	Kubernetes string `json:"kubernetes"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

// Get returns what is known of this binary.
func Get() Info {
	info := Info{
		Version: version, Kubernetes: "unknown",
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if info.Version == "" {
		info.Version = build.Main.Version
	}
	for _, dep := range build.Deps {
		if dep.Path == "k8s.io/kubernetes" {
			info.Kubernetes = dep.Version
		}
	}
	return info
}
