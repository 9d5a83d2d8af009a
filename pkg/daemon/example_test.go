package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: nginx}]}
`

// A program that embeds podconfigd serves the pods of a directory of manifests, and
// reads its own stream.
func Example() {
	dir, err := os.MkdirTemp("", "embed")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(manifest), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	socket := filepath.Join(dir, ".podconfigd.sock")
	d, err := daemon.New(daemon.Config{PodConfigdConfiguration: v1alpha1.PodConfigdConfiguration{
		HostnameOverride: "node-1", StaticPodPath: dir, Socket: &socket,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{})) // no log
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()

	for update, err := range client.New(socket).Updates(ctx, client.Options{}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if len(update.Pods) > 0 {
			fmt.Println(update.Op, update.Pods[0].Name)
			break
		}
	}
	cancel()
	fmt.Println("stopped:", errors.Is(<-done, context.Canceled))
	// Output:
	// ADD web-node-1
	// stopped: true
}
