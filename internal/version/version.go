// Package version returns the version of the running binary.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// version is set by the linker.
var version = ""

// Info is the version of the binary.
type Info struct {
	// Version is the release or commit.
	Version string `json:"version"`
	// Kubernetes is the Kubernetes release whose rules for pods are built in; "unknown" in a binary that has only the
	// client commands.
	Kubernetes string `json:"kubernetes"`
	// KubeletVersion is the same, and empty in a binary that has only the client commands.
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	GoVersion      string `json:"goVersion"`
	Platform       string `json:"platform"`
	// Major, Minor and GitVersion describe Kubernetes in the form that clients of its API expect.
	Major      string `json:"major"`
	Minor      string `json:"minor"`
	GitVersion string `json:"gitVersion"`
}

// Get returns the version of this binary.
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
			info.Kubernetes, info.KubeletVersion = dep.Version, dep.Version
		}
	}
	if parts := strings.SplitN(strings.TrimPrefix(info.Kubernetes, "v"), ".", 3); len(parts) == 3 {
		info.Major, info.Minor = parts[0], parts[1]
		info.GitVersion = info.Kubernetes + "+podconfigd"
	}
	return info
}
