// Package apiserver is the source of the pods that an apiserver has bound to the node.
//
//	source := apiserver.New(apiserver.Options{Kubeconfig: "/etc/kubernetes/kubelet.conf", Node: "node1"})
//	err := source.Run(ctx, sets)
//
// A Reflector of client-go lists and watches the pods with spec.nodeName=<node> and fills
// an UndeltaStore. Each change of the store is the source's set, as in the kubelet
// (pkg/kubelet/config/apiserver.go). Pods are transferred as protobuf and stored without
// managedFields.
//
// The source sends nothing until the apiserver has the node (kubelet: nodeHasSynced) and
// the first list is complete. After that, an unreachable apiserver changes nothing: the
// last set stays, and the next list or watch has the missed changes.
//
// # Requests to the apiserver
//
// All requests for pods share one backoff of up to ten seconds. If the apiserver asks for a longer wait
// with Retry-After, the source waits that long, up to a minute. Each failure is counted,
// logged once and shown in the status. Every wait ends with the context.
//
// Each watch begins with a list: when a watch has ended, for any reason, the pods become equal to those of the
// apiserver, even if it was restored from a backup or replaced. See [listWatch]. A watch that is silent ends: see
// [stream].
//
// # Credentials
//
// The source checks the kubeconfig, and the certificates in it, every two seconds and
// before each attempt. When they change, it closes the old connections, and lists and
// watches with the new ones. If the new files can't be used, the old ones stay in use, and
// the status shows it. client-go reads tokens in files: every minute, and at once when a
// token is refused.
package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

const (
	// answerTimeout is the maximum time until an answer, or the start of a watch's
	// answer.
	answerTimeout = 30 * time.Second
	// filesPeriod is the interval of checks of the kubeconfig and the files in it.
	filesPeriod = 2 * time.Second
)

// Options configure a Source.
type Options struct {
	// Kubeconfig is the path of a kubeconfig. If empty, the in-cluster configuration is
	// used.
	Kubeconfig string
	// Node is the node whose pods are requested.
	Node types.NodeName
	// KeepManagedFields keeps the pods' metadata.managedFields.
	KeepManagedFields bool
	// NamespaceMetadata requests the metadata of all namespaces, if Objects has Namespaces.
	NamespaceMetadata bool
	// Objects receives objects beside the pods.
	Objects Objects
	// UserAgent is the source's user agent; client-go's default if empty.
	UserAgent string
	// Registerer is for the source's metrics; nil for none.
	Registerer prometheus.Registerer
}

// Objects receives objects beside the pods. They are read-only, and the calls come from several
// goroutines. A function that is nil gets no calls, and its objects are not requested.
type Objects struct {
	// Node is called with the newest version of the node, or with nil when the apiserver no longer
	// has it. The first call comes before the first set.
	Node func(*v1.Node)
	// Namespaces is called with the metadata of all namespaces, in no order, when one of them has changed. A
	// namespace that is not among them is gone. The first call comes before the first set, unless the list fails.
	Namespaces func(all []*metav1.ObjectMeta)
}

// Source reads the pods of an apiserver.
type Source struct {
	node      types.NodeName
	connector *connector
	keep      bool
	objects   Objects
	board     *board
	attempts  *attempts
	calls     calls
}

// calls are the calls of the Reflector, and their goroutines. The Reflector does not wait for them.
type calls struct {
	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// begin reports whether a call may start. The caller ends it with running.Done.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.running.Add(1)
	}
	return !c.ended
}

// closeCalls prevents new calls, and waits for the running ones.
func (c *calls) closeCalls() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.running.Wait()
}

// New returns a source. It does nothing before Run.
func New(opts Options) *Source {
	b := newBoard(opts.Registerer)
	if !opts.NamespaceMetadata {
		opts.Objects.Namespaces = nil
	}
	return &Source{
		node: opts.Node, keep: opts.KeepManagedFields, objects: opts.Objects, board: b, attempts: newAttempts(b, lastRetry),
		connector: newConnector(opts.Kubeconfig, opts.UserAgent),
	}
}

// Status returns the status of the source. It can be called at any time.
func (s *Source) Status() v1alpha1.SourceStatus { return s.board.Status() }

// Run waits until the apiserver has the node. Then it sends the set of the node's pods at
// each change, until the context is done. It returns the context's cause.
func (s *Source) Run(ctx context.Context, sets chan<- config.SourceSet) error {
	logger := klog.FromContext(ctx).WithValues("source", config.ApiserverSource)
	// The Reflector's goroutines and requests end with this context.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logger))
	defer s.calls.closeCalls()
	defer s.connector.close()
	defer cancel()
	s.calls.running.Go(func() { s.followFiles(ctx) })
	if err := s.waitForNode(ctx); err != nil {
		return err
	}
	logger.Info("The apiserver has the node, watching its pods", "node", s.node)
	s.follow(ctx)
	s.pods().reflector(ctx, newStore(s.keep, s.pusher(ctx, sets))).RunWithContext(quiet(ctx))
	return context.Cause(ctx)
}

// pods returns what follows the pods of the node.
func (s *Source) pods() *listWatch {
	return &listWatch{
		Source: s, resource: "pods", selector: fields.OneTermEqualSelector("spec.nodeName", string(s.node)).String(),
		object: &v1.Pod{}, objects: &v1.PodList{}, acceptList: wholeObjects, acceptWatch: wholeObjects,
		board: s.board, attempts: s.attempts, onFailure: func() {},
	}
}

// pusher returns a function that sends sets. An event that waited while the last set was sent counts from then.
func (s *Source) pusher(ctx context.Context, sets chan<- config.SourceSet) func([]*v1.Pod) {
	var idle, began time.Time
	return func(pods []*v1.Pod) {
		arrived := config.ArrivedAt(idle, began)
		began = time.Now()
		select {
		case sets <- config.SourceSet{
			Pods: pods, Origin: s.board.Status().API.Server,
			Event: config.Event{Time: arrived, Began: arrived, Read: began},
		}:
			s.board.Sent()
		case <-ctx.Done():
		}
		idle = time.Now()
	}
}

// waitForNode returns when the apiserver has the node.
//
// kubelet: nodeHasSynced in NewSourceApiserver.
func (s *Source) waitForNode(ctx context.Context) error {
	var node *v1.Node
	get := func(ctx context.Context, client *client) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		node = &v1.Node{}
		err := client.rest.Get().Resource("nodes").Name(string(s.node)).MaxRetries(0).Do(ctx).Into(node)
		if err == nil && node.Name != string(s.node) {
			return fmt.Errorf("expected node %q, got another object", s.node)
		}
		if apierrors.IsNotFound(err) && apierrors.ReasonForError(err) == metav1.StatusReasonNotFound {
			return sources.Because(sources.ReasonUnknownNode,
				unknownNodeError{fmt.Errorf("the apiserver does not have the node %q, waiting until it does: %w", s.node, err)})
		}
		return err
	}
	for {
		retryAfter, err := s.try(ctx, s.attempts, get)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			break
		}
		s.attempts.failed(ctx, err, retryAfter)
	}
	s.attempts.calm()
	s.board.update(func(status *v1alpha1.APIStatus) { status.NodeKnown = true })
	s.putNode(node)
	return nil
}

// unknownNodeError is the apiserver's answer if it does not have the node.
type unknownNodeError struct{ error }

// try waits for the next attempt, and makes a request. With an error, it returns the wait that the apiserver asks for.
func (s *Source) try(ctx context.Context, a *attempts, do func(context.Context, *client) error) (retryAfter time.Duration, err error) {
	client, err := s.turn(ctx, a)
	if err != nil {
		return 0, err
	}
	var answer answer
	err = do(answer.note(quiet(ctx)), client)
	if apierrors.IsUnauthorized(err) {
		s.connector.distrust(client)
	}
	return answer.retryAfter, client.refused(err)
}

// turn waits for the next attempt, and returns its client. A change of the files ends the
// wait.
func (s *Source) turn(ctx context.Context, a *attempts) (*client, error) {
	for {
		client, changed, broken := s.connector.get()
		s.attempts.read(ctx, broken)
		pause := a.pause()
		switch {
		case pause <= 0 && client == nil:
			return nil, broken
		case pause <= 0:
			s.board.update(func(status *v1alpha1.APIStatus) { status.Server = client.server })
			return client, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		case <-changed:
			a.calm()
		}
	}
}

// quiet returns a context in which client-go does not log: attempts logs the failures.
// With -v=4, client-go logs too.
func quiet(ctx context.Context) context.Context {
	if klog.FromContext(ctx).V(4).Enabled() {
		return ctx
	}
	return klog.NewContext(ctx, logr.Discard())
}

// followFiles checks the files also while there are no requests.
func (s *Source) followFiles(ctx context.Context) {
	for await.For(ctx, filesPeriod) == nil {
		_, _, broken := s.connector.get()
		s.attempts.read(ctx, broken)
	}
}
