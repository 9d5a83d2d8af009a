package client_test

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
)

// What an agent does that acts on each change.
func ExampleClient_Updates() {
	ctx := context.Background()
	c := client.New(client.DefaultSocket())
	for update, err := range c.Updates(ctx, client.Options{NoMirrorPods: true}) {
		if err != nil {
			log.Fatal(err) // the daemon refuses the request: a lost connection is taken up again
		}
		switch {
		case update.Reset:
			fmt.Println("forget every pod:", update.Message)
		case update.Ready != nil && *update.Ready:
			fmt.Println("every source has been seen")
		}
		for _, pod := range update.Pods {
			fmt.Println(update.Op, pod.Namespace, pod.Name)
		}
	}
}

// What a program does that keeps its place over its own restarts.
func ExampleClient_Updates_resume() {
	ctx := context.Background()
	instance, revision := "cf7f…", int64(1795267200123) // as it has saved them
	c := client.New(client.DefaultSocket())
	for update, err := range c.Updates(ctx, client.Options{Instance: instance, Since: revision}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(update.Op, len(update.Pods))
		if update.Revision != 0 { // to be saved once the update is acted on
			instance, revision = update.Instance, update.Revision
		}
	}
	fmt.Println("resume from", instance, revision)
}

// What an agent does that only wants the present pods.
func ExampleCache() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cache := client.NewCache(client.New(client.DefaultSocket()), client.CacheOptions{
		Indexers: map[string]func(*v1.Pod) []string{
			"app": func(pod *v1.Pod) []string { return []string{pod.Labels["app"]} },
		},
	})
	go func() {
		if err := cache.Run(ctx); ctx.Err() == nil {
			log.Print(err) // the daemon refuses the request
		}
	}()
	<-cache.Synced()
	fmt.Println(len(cache.List()), "pods,", len(cache.ByIndex("app", "web")), "of them web servers")
}
