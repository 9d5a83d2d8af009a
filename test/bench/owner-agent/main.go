// Command owner-agent knows the ReplicaSets of a cluster as agents of a node do: with an informer of client-go, of metadata or of
// whole objects, or not at all. Usage: owner-agent KUBECONFIG none|metadata|full
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: owner-agent KUBECONFIG none|metadata|full")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "owner-agent:", err)
		os.Exit(1)
	}
}

// run ends with a signal.
func run(kubeconfig, informer string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	shared, err := newInformer(config, informer)
	if err != nil {
		return err
	}
	if shared != nil {
		shared.RunWithContext(ctx)
		return nil
	}
	<-ctx.Done()
	return nil
}

// newInformer returns the informer of the name; nil for none. The clients prefer protobuf, which costs less than JSON.
func newInformer(config *rest.Config, name string) (cache.SharedIndexInformer, error) {
	switch name {
	case "none":
		_, err := kubernetes.NewForConfig(config)
		return nil, err //nolint:wrapcheck // it says what it is
	case "metadata":
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err //nolint:wrapcheck // it says what it is
		}
		return metadatainformer.NewSharedInformerFactory(client, 0).ForResource(appsv1.SchemeGroupVersion.WithResource("replicasets")).Informer(), nil
	case "full":
		config.ContentType = "application/vnd.kubernetes.protobuf"
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, err //nolint:wrapcheck // it says what it is
		}
		return informers.NewSharedInformerFactory(client, 0).Apps().V1().ReplicaSets().Informer(), nil
	}
	return nil, errors.New("expected none, metadata or full")
}
