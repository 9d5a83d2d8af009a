package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// start makes the daemon. The error has every fault of the configuration.
func start(loaded *configfile.Configuration) (*daemon.Daemon, error) {
	if loaded.Faulty() {
		return nil, loaded.Check()
	}
	d, err := daemon.New(loaded.Config)
	if err != nil {
		return nil, loaded.Locate(err)
	}
	return d, nil
}

// runDaemon runs the daemon until the context is done, and reloads its configuration.
func runDaemon(ctx context.Context, d *daemon.Daemon, r *reloader) error {
	running, stop := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	var others sync.WaitGroup
	others.Go(func() { r.run(running, d) })
	others.Go(func() { freeMemory(running) })
	err := d.Run(running)
	stop()
	others.Wait()
	return ended(ctx, err)
}

// startTime is how long a start takes at most, with few exceptions.
const startTime = 10 * time.Second

// freeMemory gives the memory back that only the start needed.
func freeMemory(ctx context.Context) {
	if await.For(ctx, startTime) == nil {
		runtime.GC() // what is in pools is garbage after two collections
		debug.FreeOSMemory()
	}
}

// ended returns the error, unless the context ended, which is a normal stop.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
