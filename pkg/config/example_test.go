package config_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// inventory is a source. It sends its set, and again when the set changes.
type inventory struct{ changes chan []*v1.Pod }

func (s inventory) Run(ctx context.Context, sets chan<- config.SourceSet) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case pods := <-s.changes:
			select {
			case sets <- config.SourceSet{Pods: pods}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

// A program with its own source gets a channel for it, runs both, and reads the updates.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	podConfig := config.NewPodConfig()
	source := inventory{changes: make(chan []*v1.Pod)}
	sets := podConfig.Channel("inventory")
	ended := make(chan error, 2)
	go func() { ended <- podConfig.Run(ctx) }()
	go func() { ended <- source.Run(ctx, sets) }()

	pod := func(name, image string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-of-web"},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "web", Image: image}}},
		}
	}
	for _, set := range [][]*v1.Pod{{pod("web", "nginx:1.27")}, {pod("web", "nginx:1.28")}, {}} {
		source.changes <- set
		update := <-podConfig.Updates()
		for _, p := range update.Pods {
			fmt.Println(update.Op, update.Source, p.Name, p.Spec.Containers[0].Image)
		}
	}

	cancel()
	<-ended
	<-ended
	// Output:
	// ADD inventory web nginx:1.27
	// UPDATE inventory web nginx:1.28
	// REMOVE inventory web nginx:1.28
}
