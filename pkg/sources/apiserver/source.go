package apiserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

const (
	// firstRetry and lastRetry bound the wait after a failure, nodeRetry that while
	// the node is not known, which is no failure of the apiserver's, and maxRetryAfter
	// what an apiserver may ask for.
	//
	// kubelet: WaitForAPIServerSyncPeriod is what nodeRetry is.
	firstRetry    = 250 * time.Millisecond
	lastRetry     = 10 * time.Second
	nodeRetry     = time.Second
	maxRetryAfter = time.Minute
	// answerTimeout is for how long an answer, or the beginning of a watch's, is
	// waited for.
	answerTimeout = 30 * time.Second
	// filesPeriod is how often the kubeconfig and what it names are looked at.
	filesPeriod = 2 * time.Second
)

// Options say what a Source reads.
type Options struct {
	// Kubeconfig is the path of a kubeconfig; in-cluster configuration if empty.
	Kubeconfig string
	// Node is the node whose pods are wanted.
	Node types.NodeName
	// KeepManagedFields keeps the pods' metadata.managedFields.
	KeepManagedFields bool
	// UserAgent is what the source calls itself; client-go's default if empty.
	UserAgent string
	// Registerer takes the source's metrics; nil for none.
	Registerer prometheus.Registerer
}

// Source is the source of the pods of an apiserver.
type Source struct {
	node      types.NodeName
	connector *connector
	keep      bool
	board     *board
	metrics   *metrics
	calls     calls
}

// calls are those that the Reflector makes and does not wait for, and the goroutines
// that they start.
type calls struct {
	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// begin tells whether a call may begin; it ends with running.Done.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.running.Add(1)
	}
	return !c.ended
}

// end lets no more begin, and waits for the others.
func (c *calls) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.running.Wait()
}

// New returns a source. It does nothing before Run.
func New(opts Options) *Source {
	m := newMetrics(opts.Registerer)
	return &Source{
		node: opts.Node, keep: opts.KeepManagedFields, metrics: m, board: newBoard(m),
		connector: newConnector(opts.Kubeconfig, opts.UserAgent),
	}
}

// Status returns what the source knows of itself. It can be called at any time.
func (s *Source) Status() v1alpha1.SourceStatus { return s.board.Status() }

// Run waits until the apiserver knows the node, and then sends the set of its pods
// at each change until the context is done. It returns the context's cause.
func (s *Source) Run(ctx context.Context, sets chan<- config.SourceSet) error {
	logger := klog.FromContext(ctx).WithValues("source", config.ApiserverSource)
	// The Reflector's goroutines and requests end with this context.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logger))
	defer s.calls.end()
	defer s.connector.close()
	defer cancel()
	s.calls.running.Go(func() { s.followFiles(ctx) })
	if err := s.waitForNode(ctx); err != nil {
		return err
	}
	logger.Info("The apiserver knows the node; watching its pods", "node", s.node)
	s.reflector(ctx, sets).RunWithContext(ctx)
	return context.Cause(ctx)
}

// reflector returns the Reflector and the store that it fills.
func (s *Source) reflector(ctx context.Context, sets chan<- config.SourceSet) *cache.Reflector {
	store := newStore(s.keep, func(objects []any) {
		if s.push(ctx, sets, objects) {
			s.board.Sent()
		}
	})
	logger := klog.FromContext(ctx)
	return cache.NewReflectorWithOptions(s.listWatch(), &v1.Pod{}, store, cache.ReflectorOptions{
		Name: "pods", Logger: &logger,
		// It comes between one watch and the next list only: see doc.go.
		Backoff: &wait.Backoff{Duration: firstRetry, Cap: lastRetry, Steps: 10, Factor: 2, Jitter: 1},
	})
}

// push sends the set, and tells whether it did.
func (s *Source) push(ctx context.Context, sets chan<- config.SourceSet, objects []any) bool {
	pods := make([]*v1.Pod, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*v1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	select {
	case sets <- config.SourceSet{Pods: pods, Origin: s.board.Status().API.Server}:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitForNode returns once the apiserver knows the node.
//
// kubelet: nodeHasSynced in NewSourceApiserver.
func (s *Source) waitForNode(ctx context.Context) error {
	err := s.ask(ctx, nil, func(ctx context.Context, client rest.Interface) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		err := client.Get().Resource("nodes").Name(string(s.node)).MaxRetries(0).Do(ctx).Into(&v1.Node{})
		if apierrors.IsNotFound(err) && apierrors.ReasonForError(err) == metav1.StatusReasonNotFound {
			return fmt.Errorf("the apiserver does not know the node %q yet, its pods are held back until then: %w", s.node, err)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.board.update(func(status *v1alpha1.APIStatus) { status.NodeKnown = true })
	return nil
}

// ask does what do does until it succeeds, with waits between. It returns an error
// only where that is one of those in final, or the context is done.
func (s *Source) ask(ctx context.Context, final func(error) bool, do func(context.Context, rest.Interface) error) error {
	for failures := 1; ; failures++ {
		client, changed, broken := s.connector.get()
		err := broken
		if client != nil {
			s.board.update(func(status *v1alpha1.APIStatus) { status.Server = client.server })
			err = do(ctx, client.rest)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && broken != nil: // it was the client before that could
			s.report(ctx, broken, filesPeriod)
			return nil
		case err == nil:
			s.succeeded(ctx)
			return nil
		case final != nil && final(err):
			return err
		case apierrors.IsUnauthorized(err):
			s.connector.distrust(client)
		}
		in := retryIn(failures, err)
		s.metrics.failures.Inc()
		s.report(ctx, err, in)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(in):
		case <-changed:
			failures = 0
		}
	}
}

// retryIn returns how long to wait after so many failures in a row.
func retryIn(failures int, err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	longest := lastRetry
	if apierrors.IsNotFound(err) {
		longest = nodeRetry
	}
	in := min(firstRetry<<min(failures-1, 10), longest)
	return in/2 + rand.N(in/2+1)
}

// report notes why the source is degraded.
func (s *Source) report(ctx context.Context, err error, in time.Duration) {
	s.board.Failed(ctx, err, "Asking the apiserver failed; the last pods are held", "retryIn", in.Round(time.Millisecond))
}

func (s *Source) succeeded(ctx context.Context) {
	s.board.Succeeded(ctx, "Asking the apiserver succeeded again")
}

// followFiles has the connector notice other files also while nothing is asked.
func (s *Source) followFiles(ctx context.Context) {
	ticker := time.NewTicker(filesPeriod)
	defer ticker.Stop()
	var before error
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, _, broken := s.connector.get()
		switch {
		case broken != nil:
			s.report(ctx, broken, filesPeriod)
		case before != nil && s.board.Status().API.Connected: // the files are again those in use
			s.succeeded(ctx)
		}
		before = broken
	}
}
