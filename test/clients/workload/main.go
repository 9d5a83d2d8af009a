// Command workload asks the agent of SPIRE once for its X.509-SVID, writes the answer to a file, and waits for a signal:
//
//	workload SOCKET FILE
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// answer is the content of the file. Took is the time since the start of the program.
type answer struct {
	ID, Error string
	Took      time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, os.Args[1], os.Args[2])
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, socket, file string) error {
	started := time.Now()
	var a answer
	svid, err := workloadapi.FetchX509SVID(ctx, workloadapi.WithAddr("unix://"+socket))
	if a.Took = time.Since(started); err != nil {
		a.Error = err.Error()
	} else {
		a.ID = svid.ID.String()
	}
	if err := write(file, a); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// write writes the file in one step.
func write(path string, a answer) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
