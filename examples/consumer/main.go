// Command consumer prints each change of the pods of the node. After a restart of the daemon or
// its own, it goes on where it was.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/podconfigd/podconfigd/pkg/client"
)

// position is where to resume.
type position struct {
	Instance string
	Revision int64
}

const file = "position.json"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	var at position
	if data, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(data, &at); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	c := client.New(client.DefaultSocket())
	options := client.Options{Instance: at.Instance, Since: at.Revision, NoMirrorPods: true}
	for update, err := range c.Updates(ctx, options) {
		if err != nil {
			return err // the daemon refused the request; after a lost connection, the client resumes
		}
		if update.Reset {
			// The current pods follow. A consumer that starts again before their end needs all of them.
			fmt.Println("RESET all pods")
			if err := save(position{}); err != nil {
				return err
			}
		}
		for _, pod := range update.Pods {
			fmt.Println(update.Op, pod.Namespace+"/"+pod.Name) // act on it here
		}
		if update.Revision != 0 {
			if err := save(position{update.Instance, update.Revision}); err != nil {
				return err
			}
		}
	}
	return nil
}

// save stores the position after the update was handled.
func save(at position) error {
	data, err := json.Marshal(at)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
