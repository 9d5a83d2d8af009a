package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// keplerContainer is a container as Kepler has it.
type keplerContainer struct{ ID, Namespace, Pod, Name string }

// kepler compares the containers of Kepler's watcher. It keeps containers whose pod is gone, by design ("TODO: instead of
// delete"), so those that no pod has any more are not compared.
func kepler(t *testing.T, n *node) view {
	t.Helper()
	var mu sync.Mutex
	var have, current map[string]keplerContainer
	cmd := exec.CommandContext(context.Background(), installed(t, "kepler"), "-kubeconfig="+n.kubeconfig(t))
	cmd.Env = append(os.Environ(), "NODE_NAME=node1")
	run(t, cmd, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		have = nil
		_ = json.Unmarshal([]byte(text), &have) // then the containers are missing
	})
	return view{
		want: func(pods []v1.Pod) (lines []string) {
			current = make(map[string]keplerContainer)
			for i := range pods {
				for j := range pods[i].Status.ContainerStatuses {
					c := &pods[i].Status.ContainerStatuses[j]
					if _, id, ok := strings.Cut(c.ContainerID, "://"); ok {
						current[id] = keplerContainer{ID: id, Namespace: pods[i].Namespace, Pod: pods[i].Name, Name: c.Name}
						lines = append(lines, line(current[id]))
					}
				}
			}
			return lines
		},
		got: func(context.Context) (lines []string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if have == nil {
				return nil, fmt.Errorf("no line yet")
			}
			for id, c := range have {
				if _, ok := current[id]; ok {
					lines = append(lines, line(c))
				}
			}
			return lines, nil
		},
	}
}
