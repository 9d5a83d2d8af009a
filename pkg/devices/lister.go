// Package devices knows which devices, CPUs and memory the kubelet assigned to the containers of the node:
//
//	l := devices.New(devices.Options{Path: devices.Auto, Journal: j, Runtime: generator.Pods})
//	go l.Run(ctx)
//	resources := l.Table().Of(devices.PodOf(pod))
//
// The kubelet's PodResources API has lists and no watch. It is asked for a list when a pod starts or ends, and each 30 seconds. Nobody
// waits for these requests.
//
// # Whose devices
//
// A list names pods by namespace and name only, and a new pod can have the name of one that ended. So a pod gets what the list has for
// its name only if the kubelet ran it before the request, and it still had the name after the answer. The kubelet ran it if the
// container runtime has the pod; without a runtime, if the status of the pod has the time at which the kubelet took it.
package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// DefaultPath is the socket of a kubelet with its default root directory.
//
// kubelet: pkg/kubelet/kubelet_getters.go getPodResourcesDir, pkg/kubelet/apis/podresources/constants.go.
const DefaultPath = "/var/lib/kubelet/pod-resources/kubelet.sock"

// Values of Options.Path that are not a path.
const (
	Auto = "auto"
	None = "none"
)

const (
	// period is the longest time between two lists.
	period = 30 * time.Second
	// pause is the shortest time between two lists, and settle how long changes of pods are collected.
	pause  = time.Second
	settle = 100 * time.Millisecond
	// A kubelet that has just started does not list all of its pods yet. For the time starts after that, it is asked each time again,
	// and what it said before stays known of pods that it does not list.
	starts = period
	again  = 5 * time.Second
	// callTimeout is the longest time that the kubelet takes to answer.
	callTimeout = 10 * time.Second
	// maxMessage is the maximum size of a list in bytes.
	maxMessage = 16 << 20
	// maxText is the maximum length of an error of the kubelet in logs and in the status, in bytes.
	maxText = 1000
)

// retries are the waits after a list that failed.
var retries = wait.Backoff{Duration: time.Second, Cap: 5 * time.Second, Jitter: 0.5}

// Options configures a Lister.
type Options struct {
	// Path is the path of the kubelet's socket, or Auto for DefaultPath, if it is there.
	Path    string
	Journal *journal.Journal
	// Runtime returns the pods of the container runtime; nil without one.
	Runtime func() ([]*pleg.Pod, bool)
	// Listed is called when the table has changed; nil for no call. It must not block.
	Listed func()
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Lister lists the resources of the pods.
type Lister struct {
	opts    Options
	lists   *prometheus.CounterVec
	notices chan struct{}
	// ask requests a list. The time identifies the kubelet that answers: it is that of its socket.
	ask func(ctx context.Context) (list []*podresourcesv1.PodResources, socket time.Time, err error)
	// What follows is of the goroutine of Run. socket and since are the last kubelet and when it was first asked.
	backoff       await.Backoff
	socket, since time.Time

	mu        sync.Mutex // guards what follows. Only the goroutine of Run writes it.
	table     *Table
	lastError string
	// absent is true if there was no socket in the last attempt, and none before.
	absent bool
}

// New returns a Lister. It does nothing before Run.
func New(opts Options) *Lister {
	l := &Lister{opts: opts, notices: make(chan struct{}, 1), table: new(Table)}
	if opts.Path == Auto {
		l.opts.Path, l.absent = DefaultPath, true
	}
	l.ask = l.request
	in := metric.In(opts.Registerer, "devices")
	l.lists = in.CounterVec("lists_total", "Number of times that the kubelet was asked for the devices of its pods, by result: ok or error.", "result", "ok", "error")
	in.GaugeFunc("last_list_timestamp_seconds", "Unix time of the last list of devices that the kubelet answered; 0 before the first one.", func() float64 {
		if t := l.Table(); t.Known() {
			return float64(t.at.UnixMilli()) / 1e3
		}
		return 0
	})
	return l
}

// Table returns what is known now.
func (l *Lister) Table() *Table {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table
}

// Notice says that the pods of the runtime have changed. It does not block.
func (l *Lister) Notice() { await.Signal(l.notices) }

// Status returns what is known; nil if there was no socket yet, and none is required.
func (l *Lister) Status() *v1alpha1.DevicesStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.absent {
		return nil
	}
	s := &v1alpha1.DevicesStatus{Socket: l.opts.Path, Pods: len(l.table.pods), LastError: l.lastError}
	if l.table.Known() {
		s.LastList = &l.table.at
	}
	return s
}

// Run lists until the context is done, and returns the cause of the context.
func (l *Lister) Run(ctx context.Context) error {
	var listed map[types.NamespacedName]types.UID
	var last time.Time
	for {
		if l.backoff.Waits(time.Now()) { // without a kubelet, changes of pods cost nothing
			if err := await.For(ctx, time.Until(l.backoff.Next)); err != nil {
				return err
			}
		}
		revision := l.opts.Journal.Revision()
		live, known := l.live()
		if !known { // a list would say of no pod which devices it has
			if err := l.wait(ctx, revision, time.Now().Add(pause)); err != nil {
				return err
			}
			continue
		}
		due := last.Add(period)
		switch {
		case l.backoff.Wait > 0:
			due = l.backoff.Next
		case !maps.Equal(live, listed):
			due = last.Add(pause)
		case last.Sub(l.since) < starts:
			due = last.Add(again)
		}
		if !time.Now().Before(due) {
			listed, last = live, time.Now()
			l.list(ctx, live)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		if err := l.wait(ctx, revision, due); err != nil {
			return err
		}
	}
}

// wait returns at the time due, or when pods may have changed since a revision.
func (l *Lister) wait(ctx context.Context, revision int64, due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	if read, err := l.opts.Journal.After(revision, nil, 1); err == nil && len(read.Sets) == 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		case <-l.notices:
		case <-read.Changed:
		}
	}
	return await.For(ctx, settle)
}

// list asks the kubelet, for pods that it ran before.
func (l *Lister) list(ctx context.Context, before map[types.NamespacedName]types.UID) {
	began := time.Now()
	list, socket, err := l.ask(ctx)
	if ctx.Err() != nil {
		return
	}
	live, _ := l.live()
	maps.DeleteFunc(live, func(name types.NamespacedName, uid types.UID) bool { return before[name] != uid })
	if l.opts.Listed != nil {
		defer l.opts.Listed()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed(ctx, err)
		l.table = l.table.only(live)
		return
	}
	if !socket.Equal(l.socket) {
		l.socket, l.since = socket, began
	}
	l.lists.WithLabelValues("ok").Inc()
	if l.lastError != "" {
		klog.FromContext(ctx).Info("The kubelet lists the devices of its pods again")
	}
	l.lastError, l.absent, l.backoff = "", false, await.Backoff{}
	next := &Table{at: began, pods: make(map[Pod][]v1alpha1.ContainerResources)}
	listed := resourcesOf(list)
	for name, uid := range live {
		resources, is := listed[name]
		if !is && began.Sub(l.since) < starts {
			resources = l.table.Of(Pod{name, uid})
		}
		if len(resources) > 0 {
			next.pods[Pod{name, uid}] = resources
		}
	}
	l.table = next
}

// failed notes that a list failed. The caller has locked mu.
func (l *Lister) failed(ctx context.Context, err error) {
	l.backoff.Failed(time.Now(), retries, err)
	if l.absent && errors.Is(err, fs.ErrNotExist) {
		return
	}
	l.lists.WithLabelValues("error").Inc()
	text := printable.Cut(err.Error(), maxText)
	if l.lastError == "" {
		klog.FromContext(ctx).Info("Could not list the devices of the kubelet's pods, trying again later without a further message", "reason", text)
	}
	l.lastError, l.absent = text, false
}

// request requests a list, on a connection of its own: so nothing is left of a kubelet that ended.
func (l *Lister) request(ctx context.Context) (list []*podresourcesv1.PodResources, socket time.Time, err error) {
	file, err := os.Stat(l.opts.Path)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("connecting to the kubelet: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///kubelet",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", l.opts.Path)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, time.Time{}, err
	}
	defer conn.Close()
	response, err := podresourcesv1.NewPodResourcesListerClient(conn).List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("listing the devices of the kubelet's pods at %s: %w", l.opts.Path, err)
	}
	return response.GetPodResources(), file.ModTime(), nil
}
