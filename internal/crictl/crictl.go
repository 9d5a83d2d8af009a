// Package crictl has the texts for what only a kubelet does with containers: logs, commands, ports.
//
//	if instead := crictl.Instead(r.URL.Path); instead != "" {
//		http.Error(w, instead, http.StatusNotFound)
//	}
package crictl

import (
	"maps"
	"slices"
	"strings"
)

// Text says what to use instead of podconfigd.
const Text = "podconfigd runs nothing in containers, and reads nothing from them: use crictl on the node"

// subresources are the subresources of a pod that its kubelet serves, with the commands that do the same.
var subresources = map[string]string{
	"log":         "crictl logs",
	"exec":        "crictl exec",
	"attach":      "crictl attach",
	"portforward": "crictl port-forward",
}

// Instead returns what to use instead of a path of the Kubernetes API, as in
// /api/v1/namespaces/default/pods/web/log. It is empty for all other paths.
func Instead(path string) string {
	below, ok := strings.CutPrefix(path, "/api/v1/namespaces/")
	parts := strings.Split(below, "/")
	if !ok || len(parts) != 4 || parts[1] != "pods" {
		return ""
	}
	if command := subresources[parts[3]]; command != "" {
		return forExample(command) + ", or kubectl with a kubeconfig of the apiserver"
	}
	return ""
}

// Command returns what to use instead of a command of kubectl. It is empty for commands that are not for containers.
func Command(kubectl string) string {
	command := "crictl " + kubectl
	switch {
	case kubectl == "cp":
		return Text
	case slices.Contains(slices.Collect(maps.Values(subresources)), command):
		return forExample(command)
	}
	return ""
}

func forExample(command string) string { return Text + ", for example " + command }
