// Package export has the command export, which sends the stream to an OpenTelemetry Collector.
//
// read follows the stream, and converts each update to log records. deliver takes what is there as a batch, sends it until the
// Collector has acknowledged it, and then stores the position. In between are at most ahead records: while the Collector is away,
// the stream is not read.
package export

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/pkg/client"
)

const (
	// ahead is how many records are read before those before them are acknowledged.
	ahead = 256
	// maxBatch is the size of a batch in bytes, without its last record. A Collector accepts 4 MiB by default.
	maxBatch = 1 << 20
	// retryDaemon is the wait after a failed request other than for the stream.
	retryDaemon = time.Second
)

// Options are the flags of export.
type Options struct {
	cli.Selection
	collectorFlags
	body, stateFile, metrics string
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var flags cli.ClientFlags
	var opts Options
	cmd := &cobra.Command{
		Use:   "export --otlp=ADDRESS",
		Short: "Send the stream of updates to an OpenTelemetry Collector",
		Long: `Send the stream of updates to an OpenTelemetry Collector, as log records over OTLP/gRPC: first the current
pods, then each change. The command runs until it is interrupted.

Each pod of an update is a record. Its event name is the operation, as in podconfigd.pod.add. The
attributes k8s.pod.name, k8s.pod.uid, k8s.namespace.name and those of the known owners, as in
k8s.deployment.name, are those of the semantic conventions. podconfigd.instance and
podconfigd.revision are those of the stream. The body is the pod.

The command waits for the Collector to acknowledge each batch, and repeats it until then. With
--state-file, it then stores its position, and continues there after a restart. A record can arrive
twice, with the same instance, revision and UID. If changes are missing, a record with the event
name podconfigd.gap says so. While the Collector is away, the stream is not read. If the daemon no
longer has the changes in memory, the command reads them from its history (--state-dir of the daemon).`,
		Example: `  # Send all changes to a Collector on this machine
  podconfigctl export --otlp=http://localhost:4317 --state-file=/var/lib/podconfigctl/export.json

  # Send what changed, but not the pods, over TLS
  podconfigctl export --otlp=https://otel.example.com:4317 --otlp-ca-file=ca.crt --otlp-token-file=token --body=diff`,
		Args: command.NoArgs,
		RunE: flags.RunE(func(*cobra.Command, []string) error { return opts.check() }, opts.Run),
	}
	flags.AddTo(cmd)
	opts.addTo(cmd)
	f := cmd.Flags()
	f.StringVar(&opts.body, "body", "object", "Body of the records. One of: object (the pod, as JSON), diff (the fields that changed, one a line; empty if the version before is not known), none.")
	f.StringVar(&opts.stateFile, "state-file", "", "Path of the file for the position. If empty, each start sends the current pods first.")
	f.StringVar(&opts.metrics, "metrics-bind-address", "", "Address, as HOST:PORT, on which to serve metrics of the export at /metrics, over plain HTTP. If empty, does not serve them.")
	opts.AddTo(cmd, &flags, "ADD, UPDATE, REMOVE, DELETE and RECONCILE", "export")
	f.BoolVar(&opts.Owners, "owners", false, "Send all owners of pods, not only their controllers. Requires --owners of the daemon.")
	command.CompleteFlag(cmd, "metrics-bind-address")
	command.CompleteFlag(cmd, "body", "object", "diff", "none")
	return cmd
}

func (o *Options) check() error {
	switch o.body {
	case "object", "diff", "none":
	default:
		return fmt.Errorf("--body: unknown body %q: expected one of object, diff, none", o.body)
	}
	return o.collectorFlags.check()
}

// exporter is a running export.
type exporter struct {
	*Options
	client    *client.Client
	collector *collector
	// node is the name of the node, which is known before the first item. accepted is true if the daemon has accepted a stream.
	node     string
	accepted bool
	diff     *poddiff.Stream
	note     func(error)
	*metrics
}

// item is a record, and the position that is reached when it and all before it are acknowledged.
type item struct {
	record  *logs.LogRecord // nil for only a position
	reached position        // zero for none
}

// Run exports until the context is done.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	var from position
	if o.stateFile != "" {
		path, lock, err := lockPosition(o.stateFile)
		if err != nil {
			return err
		}
		defer lock.Close()
		o.stateFile = path
		if from, err = loadPosition(path); err != nil {
			return err
		}
	}
	to, err := o.dial()
	if err != nil {
		return err
	}
	defer func() { _ = to.conn.Close() }() // of the last one
	reg := prometheus.NewRegistry()
	e := &exporter{Options: o, client: c, collector: to, diff: poddiff.NewStream(), note: noter(streams.ErrOut), metrics: newMetrics(reg)}
	if o.metrics != "" {
		stop, err := serveMetrics(ctx, o.metrics, reg)
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, stop := context.WithCancel(ctx)
	items := make(chan item, ahead)
	var failure error
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(items)
		failure = e.read(ctx, from, items)
	})
	e.deliver(ctx, items)
	stop()
	reading.Wait()
	return failure
}

// read sends the stream as items, until the context is done or the daemon refuses the request.
func (e *exporter) read(ctx context.Context, from position, items chan<- item) (err error) {
	emit := func(i item) bool {
		select {
		case items <- i:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for ctx.Err() == nil && err == nil {
		from, err = e.follow(ctx, from, emit)
	}
	return err
}

// follow reads a stream. It returns the position from which to open the next one.
func (e *exporter) follow(ctx context.Context, from position, emit func(item) bool) (position, error) {
	opts := e.Stream()
	opts.Instance, opts.Since = from.Instance, from.Revision
	opts.OnDisconnect = func(err error, _ time.Duration) { e.note(err) }
	current := newConverter(e, from)
	for u, err := range e.client.Updates(ctx, opts) {
		e.accepted = e.accepted || err == nil
		switch {
		case err != nil && e.accepted && !isRefused(err, http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusNotImplemented):
			e.note(err) // it may pass: after a restart of the daemon, all subscribers come back at once
			_ = await.For(ctx, retryDaemon)
			return from, nil
		case err != nil:
			return from, cli.AsFlags(err)
		case e.node == "":
			status, err := e.client.Status(ctx)
			if err != nil {
				e.note(fmt.Errorf("asking for the name of the node: %w", err))
				_ = await.For(ctx, retryDaemon)
				return from, nil
			}
			e.node = status.NodeName
		}
		if u.Reset && u.Instance == "" && current.at.Revision != 0 { // by the client: the stream ended before the current pods
			e.diff.Reset()
			_ = await.For(ctx, retryDaemon)
			return current.at, nil
		}
		if u.Reset {
			to, after := e.fill(ctx, current.at, u, emit)
			if after == exported {
				return to, nil
			}
			current.known = after == none
		}
		for _, i := range current.items(u) {
			if !emit(i) {
				return from, nil
			}
		}
	}
	return from, nil
}

// deliver sends the items in batches, and stores the position that each batch reaches, until there are no more items or the context
// is done.
func (e *exporter) deliver(ctx context.Context, items <-chan item) {
	stored := position{}
	for first := range items {
		records, reached := batch(first, items)
		e.sending(records)
		if e.send(ctx, records) != nil {
			return
		}
		e.sending(nil)
		if reached == (position{}) || reached == stored || e.stateFile == "" {
			continue
		}
		if err := reached.store(e.stateFile); err != nil {
			e.note(fmt.Errorf("storing the position: %w", err)) // the next batch stores it
			continue
		}
		stored = reached
	}
}

// batch takes the items that are there. It does not wait for more.
func batch(next item, items <-chan item) (records []*logs.LogRecord, reached position) {
	for size := 0; ; {
		if next.record != nil {
			records = append(records, next.record)
			size += len(next.record.Body.GetStringValue()) + recordSize
		}
		if next.reached != (position{}) {
			reached = next.reached
		}
		if size >= maxBatch {
			return records, reached
		}
		var more bool
		select {
		case next, more = <-items:
		default:
		}
		if !more {
			return records, reached
		}
	}
}
