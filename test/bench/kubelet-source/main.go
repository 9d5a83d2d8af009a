// Command kubelet-source runs the kubelet's file source and merge on a directory and
// writes a line for each update of their channel. Usage: kubelet-source DIRECTORY
// NODE-NAME
//
// It is a separate process because the kubelet's source can't be stopped.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

// checkFrequency is the kubelet's default for the interval of listings.
const checkFrequency = 20 * time.Second

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: kubelet-source DIRECTORY NODE-NAME")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], types.NodeName(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-source:", err)
		os.Exit(1)
	}
}

// run writes the updates until an error. Each has the time before it is encoded.
func run(ctx context.Context, path string, node types.NodeName) error {
	started := peer.Now()
	podConfig := config.NewPodConfig(&record.FakeRecorder{}, noObserver{})
	config.NewSourceFile(klog.FromContext(ctx), path, node, checkFrequency,
		podConfig.Channel(ctx, kubetypes.FileSource))
	lines := json.NewEncoder(os.Stdout)
	for update := range podConfig.Updates() {
		event := peer.Event{
			At: peer.Now(), Started: started,
			Op: operations[update.Op], Pods: len(update.Pods), Ready: true,
		}
		if len(update.Pods) > 0 {
			event.Version = update.Pods[0].Annotations[peer.VersionAnnotation]
		}
		if err := lines.Encode(event); err != nil {
			return err
		}
	}
	return nil
}

var operations = map[kubetypes.PodOperation]string{
	kubetypes.ADD: "ADD", kubetypes.UPDATE: "UPDATE", kubetypes.REMOVE: "REMOVE",
	kubetypes.DELETE: "DELETE", kubetypes.RECONCILE: "RECONCILE",
}

// noObserver ignores when pods were first seen.
type noObserver struct{}

func (noObserver) ObservedPodOnWatch(klog.Logger, *v1.Pod, time.Time) {}
