package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/components"
)

// kubectl compares what "kubectl get pods" prints.
func kubectl(t *testing.T, n *node) view {
	t.Helper()
	config, home := n.kubeconfig(t), t.TempDir()
	return view{
		want: seenPods,
		got: func(ctx context.Context) ([]string, error) {
			cmd := exec.CommandContext(ctx, components.Kubectl(t), "get", "pods", "-A", "-o", "json")
			cmd.Env = []string{"HOME=" + home, "KUBECONFIG=" + config}
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("kubectl get pods: %w", err)
			}
			var list v1.PodList
			if err := json.Unmarshal(out, &list); err != nil {
				return nil, err
			}
			return seenPods(list.Items), nil
		},
	}
}
