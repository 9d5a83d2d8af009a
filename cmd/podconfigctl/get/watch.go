package get

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/liggitt/tabwriter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// reconnectAfter is the pause before podWatch connects again.
const reconnectAfter = time.Second

// podWatch prints pods that change, over the Kubernetes API of the daemon.
type podWatch struct {
	opts    *Options
	client  *client.Client
	printer printers.ResourcePrinter
	selects func(*unstructured.Unstructured) bool
	// table aligns rows with those before. text has them until they are written to out. failed is the error of out.
	table      *tabwriter.Writer
	text       bytes.Buffer
	out, notes io.Writer
	failed     error
	// revision is the last revision that was printed; empty before the first list. fresh is true
	// if it is that of a list.
	revision string
	fresh    bool
	// known has the pods as they were received last, by name.
	known   map[types.NamespacedName]*unstructured.Unstructured
	failure string
}

func newPodWatch(o *Options, c *client.Client, printer printers.ResourcePrinter, selects func(*unstructured.Unstructured) bool, out, notes io.Writer) *podWatch {
	w := &podWatch{
		opts: o, client: c, printer: printer, selects: selects, out: out, notes: notes,
		known: make(map[types.NamespacedName]*unstructured.Unstructured),
	}
	w.table = printers.GetNewTabWriter(&w.text)
	return w
}

// errExpired means that the daemon no longer has the revision. The pods are listed again.
var errExpired = errors.New("the revision is no longer known")

// run prints the pods and their changes until ctx ends. It fails only if the first list fails,
// or the output. After that, it connects again.
func (w *podWatch) run(ctx context.Context) error {
	for {
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the command was interrupted
		}
		switch {
		case w.failed != nil:
			return w.failed
		case errors.Is(err, errExpired) && !w.fresh:
			continue
		case errors.Is(err, errExpired): // the next one may expire at once too
		case err != nil && w.revision == "" && !notKnownYet(err):
			return err
		case err != nil && err.Error() != w.failure:
			w.failure = err.Error()
			fmt.Fprintf(w.notes, "podconfigctl: %v; reconnecting\n", err)
		}
		if await.For(ctx, reconnectAfter) != nil {
			return nil //nolint:nilerr // as above
		}
	}
}

// notKnownYet reports whether a source has not delivered its pods yet.
func notKnownYet(err error) bool {
	refused, ok := errors.AsType[*client.RefusedError](err)
	return ok && refused.Code == http.StatusServiceUnavailable
}

func (w *podWatch) path() string {
	if w.opts.namespace != "" {
		return "/api/v1/namespaces/" + url.PathEscape(w.opts.namespace) + "/pods"
	}
	return "/api/v1/pods"
}

func (w *podWatch) query() url.Values {
	query := make(url.Values)
	if w.opts.selector != "" {
		query.Set("labelSelector", w.opts.selector)
	}
	if w.opts.fieldSelector != "" {
		query.Set("fieldSelector", w.opts.fieldSelector)
	}
	if w.opts.ownedBy != "" {
		query.Set("owner", w.opts.ownedBy)
	}
	return query
}

// follow lists the pods, unless it can resume, and prints changes until the connection ends.
func (w *podWatch) follow(ctx context.Context) error {
	if w.revision == "" || w.revision == expired {
		if err := w.list(ctx); err != nil {
			return err
		}
	}
	query := w.query()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", w.revision)
	body, err := w.client.Get(ctx, w.path(), query)
	if err != nil {
		return w.gone(err)
	}
	defer body.Close()
	w.failure = ""
	decoder := json.NewDecoder(body)
	for {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := decoder.Decode(&event); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("reading the watch: %w", err)
		}
		if err := w.take(apiwatch.EventType(event.Type), event.Object); err != nil {
			return err
		}
	}
}

// expired forgets a revision that the daemon no longer has.
const expired = "expired"

func (w *podWatch) gone(err error) error {
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Code == http.StatusGone {
		w.revision = expired
		return errExpired
	}
	return err
}

// list prints the pods that are gone, new or changed since the last list.
func (w *podWatch) list(ctx context.Context) error {
	list, err := getList(ctx, w.client, w.path(), w.query())
	if err != nil {
		return err
	}
	items := slices.DeleteFunc(list.Items, func(pod unstructured.Unstructured) bool { return !w.selects(&pod) })
	first := w.revision == ""
	if first && len(w.opts.names) > 0 {
		if items, err = w.opts.choose(items); err != nil {
			return err
		}
	}
	if first && w.opts.watchOnly {
		for i := range items {
			w.known[podName(&items[i])] = &items[i]
		}
	} else if err := w.changes(items); err != nil {
		return err
	}
	w.revision, w.fresh = list.GetResourceVersion(), true
	return nil
}

// changes prints how a list differs from the known pods.
func (w *podWatch) changes(items []unstructured.Unstructured) error {
	gone := maps.Clone(w.known)
	for i := range items {
		delete(gone, podName(&items[i]))
	}
	for _, name := range slices.SortedFunc(maps.Keys(gone), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		if err := w.print(apiwatch.Deleted, gone[name]); err != nil {
			return err
		}
	}
	for i := range items {
		kind, known := apiwatch.Added, w.known[podName(&items[i])]
		if known != nil && known.GetResourceVersion() == items[i].GetResourceVersion() {
			continue
		}
		if known != nil && known.GetUID() == items[i].GetUID() {
			kind = apiwatch.Modified
		}
		if err := w.print(kind, &items[i]); err != nil {
			return err
		}
	}
	return w.flush()
}

func podName(pod *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()}
}

// take prints an event.
func (w *podWatch) take(kind apiwatch.EventType, data []byte) error {
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(data); err != nil {
		return fmt.Errorf("reading the watch: %w", err)
	}
	if kind == apiwatch.Error {
		code, _, _ := unstructured.NestedInt64(object.Object, "code")        // 0 is another error
		message, _, _ := unstructured.NestedString(object.Object, "message") // it may have none
		return w.gone(&client.RefusedError{Code: int(code), Message: message})
	}
	var err error
	if kind != apiwatch.Bookmark && w.selects(&object) {
		err = cmp.Or(w.print(kind, &object), w.flush())
	}
	w.revision, w.fresh = object.GetResourceVersion(), false
	return err
}

// print prints a pod, aligned with those before.
func (w *podWatch) print(kind apiwatch.EventType, pod *unstructured.Unstructured) error {
	var object runtime.Object = pod
	if w.opts.watchEvents {
		object = &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Object: pod}}
	}
	if err := w.printer.PrintObj(object, w.table); err != nil {
		return err
	}
	if w.known[podName(pod)] = pod; kind == apiwatch.Deleted {
		delete(w.known, podName(pod))
	}
	return nil
}

// flush writes the rows that were printed.
func (w *podWatch) flush() error {
	_ = w.table.Flush() // a buffer does not fail
	_, w.failed = w.text.WriteTo(w.out)
	return w.failed
}
