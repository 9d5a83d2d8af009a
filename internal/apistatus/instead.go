package apistatus

import "strings"

// nothing says what to use instead of podconfigd for what only a kubelet does with containers: logs, commands, ports.
const nothing = "podconfigd runs nothing in containers, and reads nothing from them: use crictl on the node"

// commands are the commands of kubectl and crictl for the subresources of a pod that its kubelet serves.
var commands = map[string]string{"log": "logs", "exec": "exec", "attach": "attach", "portforward": "port-forward"}

// Instead returns what to use instead of a path of the Kubernetes API, as in
// /api/v1/namespaces/default/pods/web/log. It is empty for all other paths.
func Instead(path string) string {
	below, ok := strings.CutPrefix(path, "/api/v1/namespaces/")
	if parts := strings.Split(below, "/"); ok && len(parts) == 4 && parts[1] == "pods" && commands[parts[3]] != "" {
		return InsteadOf(commands[parts[3]]) + ", or kubectl with a kubeconfig of the apiserver"
	}
	return ""
}

// InsteadOf returns what to use instead of a command of kubectl. It is empty for commands that are not for containers.
func InsteadOf(kubectl string) string {
	switch kubectl {
	case "cp":
		return nothing
	case "logs", "exec", "attach", "port-forward":
		return nothing + ", for example crictl " + kubectl
	}
	return ""
}
