package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
)

// records are changes, in the order of --newest. An error ends them.
type records = iter.Seq2[*v1alpha1.HistoryRecord, error]

// reader reads the history of the daemon, or of a directory.
type reader struct {
	*Options
	client *client.Client
	// dir is the directory; empty for the daemon.
	dir   string
	notes io.Writer
}

// records returns the selected changes. If no daemon runs, they are those of the fallback.
func (r *reader) records(ctx context.Context) records {
	return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
		if r.dir == "" {
			err := r.fromDaemon(ctx, yield)
			if err == nil {
				return
			}
			if _, missing := os.Stat(r.fallback); missing != nil || r.Owner != "" {
				yield(nil, fmt.Errorf("%w; to read the history without a daemon, set --state-dir", err))
				return
			}
			fmt.Fprintf(r.notes, "podconfigctl: %v; reading %s\n", err, r.fallback)
			r.dir = r.fallback
		}
		r.fromDirectory(yield)
	}
}

// fromDaemon yields the changes that the daemon has. It returns an error only if no daemon runs, and
// the fallback takes its place.
func (r *reader) fromDaemon(ctx context.Context, yield func(*v1alpha1.HistoryRecord, error) bool) error {
	opts := r.HistoryOptions
	var err error
	if r.pod.Pod != "" {
		opts.Pod, err = r.podOfDaemon(ctx)
	}
	if err != nil && (r.fallback == "" || !notRunning(err)) {
		yield(nil, err)
		return nil
	}
	if err != nil {
		return err
	}
	for record, err := range r.client.History(ctx, opts) {
		if r.fallback != "" && notRunning(err) {
			return err
		}
		if r.inNamespace(record) && !yield(record, err) {
			return nil
		}
	}
	return nil
}

// inNamespace reports whether a change is selected by its namespace.
func (r *reader) inNamespace(record *v1alpha1.HistoryRecord) bool {
	return record == nil || record.Gap != "" || r.pod.Namespace == "" || record.Namespace == r.pod.Namespace
}

// podOfDaemon returns the pod as NAMESPACE/NAME. A pod that is gone is looked up in the history.
func (r *reader) podOfDaemon(ctx context.Context) (string, error) {
	name, err := r.pod.Name()
	if err != nil {
		return "", err
	}
	found, err := r.pod.Resolve(ctx, r.client)
	if err == nil {
		return found.String(), nil
	}
	if !errors.Is(err, podname.ErrNotFound) {
		return "", err
	}
	status, err := r.client.Status(ctx)
	if err != nil {
		return "", err
	}
	exact := name.WithNamespace()
	for _, pod := range []string{exact, podname.Static(exact, status.NodeName)} {
		for record, err := range r.client.History(ctx, client.HistoryOptions{Pod: pod}) {
			if err == nil && record.Gap == "" {
				return pod, nil
			}
		}
	}
	return exact, nil
}

// notRunning reports whether the error of a connection means that no daemon runs.
func notRunning(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// fromDirectory yields the changes in a directory. Its error has a likely cause.
func (r *reader) fromDirectory(yield func(*v1alpha1.HistoryRecord, error) bool) {
	selection, err := r.selection(time.Now())
	if err == nil && r.pod.Pod != "" {
		var pod string
		if pod, err = r.podInDirectory(); err == nil {
			selection.Pod, err = history.ParsePod(pod)
		}
	}
	if err != nil {
		yield(nil, err)
		return
	}
	for record, err := range history.Read(r.dir, selection) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("%w: is this the --state-dir of podconfigd?", err)
		case errors.Is(err, fs.ErrPermission):
			err = fmt.Errorf("%w: only the user of the daemon and root can read it", err)
		}
		if r.inNamespace(record) && !yield(record, err) {
			return
		}
	}
}

// podInDirectory returns the pod as NAMESPACE/NAME. The directory does not name the node, so its name comes from the pods.
func (r *reader) podInDirectory() (string, error) {
	name, err := r.pod.Name()
	if err != nil {
		return "", err
	}
	type pod struct{ namespace, name, node string }
	var pods []pod
	known := make(map[pod]bool)
	for record, err := range history.Read(r.dir, history.Options{Pods: true}) {
		if err != nil {
			break // the read of the changes has the error, too
		}
		if record.Name == "" {
			continue
		}
		p := pod{namespace: record.Namespace, name: record.Name}
		for _, object := range []*v1.Pod{record.Before, record.Pod} {
			if object != nil {
				p.node = object.Spec.NodeName
			}
		}
		if !known[p] {
			known[p], pods = true, append(pods, p)
		}
	}
	var names []string
	for _, p := range podname.Find(name, pods, func(p *pod) (string, string, string) { return p.namespace, p.name, p.node }) {
		names = append(names, p.namespace+"/"+p.name)
	}
	found, err := name.One(names)
	if errors.Is(err, podname.ErrNotFound) {
		return name.WithNamespace(), nil
	}
	return found, err
}

// followPeriod is the period in which --follow reads what is new.
const followPeriod = time.Second

// change identifies a change in the history.
type change struct {
	instance, pod, gap string
	revision           int64
	op                 v1alpha1.Op
}

// newest are the changes that were printed last: those of the newest time, and all gaps. They are
// read again, since a period of the history includes its start.
type newest struct {
	at      time.Time
	changes map[change]bool
}

// isNew reports whether a change was not printed yet, and notes it.
func (n *newest) isNew(r *v1alpha1.HistoryRecord) bool {
	c := change{r.Instance, r.Namespace + "/" + r.Name, r.Gap, r.Revision, r.Op}
	if n.changes[c] || r.Time != nil && r.Time.Before(n.at) {
		return false
	}
	if r.Time != nil && r.Time.After(n.at) {
		n.at = *r.Time
		for old := range n.changes {
			if old.gap == "" {
				delete(n.changes, old)
			}
		}
	}
	n.changes[c] = true
	return true
}

// followHistory prints the history and then each further change, until the context is done. It fails
// only at the start. Later, it reports an error and tries again.
func (r *reader) followHistory(ctx context.Context, p historyPrinter) error {
	seen := &newest{changes: make(map[change]bool)}
	failure := ""
	for first := true; ; first = false {
		for record, err := range r.lines(r.records(ctx), false) {
			switch {
			case ctx.Err() != nil:
				return nil // the command was interrupted
			case err != nil && first:
				return err
			case err != nil && err.Error() != failure:
				failure = err.Error()
				fmt.Fprintf(r.notes, "podconfigctl: %v; trying again\n", err)
			case err != nil || !seen.isNew(record):
			default:
				failure = ""
				if err := p.print(record); err != nil {
					return err
				}
			}
		}
		if err := p.flush(); err != nil {
			return err
		}
		if r.dir == "" {
			r.fallback = "" // the daemon will be back
		}
		if !seen.at.IsZero() {
			r.Since = seen.at.Format(time.RFC3339Nano)
		}
		if await.For(ctx, followPeriod) != nil {
			return nil
		}
	}
}
