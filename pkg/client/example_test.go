package client_test

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
)

// An agent that acts on each change.
func ExampleClient_Updates() {
	ctx := context.Background()
	c := client.New(client.DefaultSocket())
	for update, err := range c.Updates(ctx, client.Options{NoMirrorPods: true}) {
		if err != nil {
			log.Fatal(err) // the daemon refused the request; after a lost connection, the client resumes
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

// A program that resumes after its own restart.
func ExampleClient_Updates_resume() {
	ctx := context.Background()
	instance, revision := "cf7f…", int64(1795267200123) // as saved
	c := client.New(client.DefaultSocket())
	for update, err := range c.Updates(ctx, client.Options{Instance: instance, Since: revision}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(update.Op, len(update.Pods))
		if update.Revision != 0 { // save it after the update was handled
			instance, revision = update.Instance, update.Revision
		}
	}
	fmt.Println("resume from", instance, revision)
}

// An agent that needs only the current pods.
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
			log.Print(err) // the daemon refused the request
		}
	}()
	<-cache.Synced()
	fmt.Println(len(cache.List()), "pods,", len(cache.ByIndex("app", "web")), "of them web servers")
}
