// Command crirunner makes a container runtime run what podconfigd's stream says: a
// node agent in a few hundred lines. It runs pods on the host's network, with their
// containers' commands and environment, restarts what exits as the
// restart policy says, replaces what changed and removes what is wanted no more.
// What else a kubelet does (probes, init containers, networks, volumes), it does not.
//
//	podconfigd --pod-manifest-path DIR --container-runtime-endpoint unix:///run/containerd/containerd.sock
//	crirunner --container-runtime-endpoint unix:///run/containerd/containerd.sock
//
// It keeps no state: what runs is in the runtime, and what should run in the stream.
// So it, podconfigd and the runtime may each be killed and restarted, and nothing
// that runs is touched.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

func main() {
	endpoint := flag.String("container-runtime-endpoint", "unix:///run/containerd/containerd.sock", "the runtime's CRI socket")
	socket := flag.String("socket", client.DefaultSocket(), "podconfigd's socket")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *socket, *endpoint)
	stop()
	if err != nil {
		slog.Error("crirunner failed", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, socket, endpoint string) error {
	conn, err := grpc.NewClient("unix://"+strings.TrimPrefix(endpoint, "unix://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("--container-runtime-endpoint: %w", err)
	}
	defer conn.Close()
	a := &agent{
		runtime: &runtime{runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)},
		wanted:  make(map[types.NamespacedName]*v1.Pod), stale: make(map[types.NamespacedName]bool),
		workers: make(map[types.NamespacedName]*worker),
	}
	return a.follow(ctx, client.New(socket))
}

// agent has what should run, and a worker for each pod that is or was wanted. Pods go
// by name here: an edited static pod is another one, of another UID, which must not
// run before the one that it replaces is gone.
type agent struct {
	runtime *runtime
	wanted  map[types.NamespacedName]*v1.Pod
	// stale are the pods that were wanted before a reset and have not been told of
	// since; syncing is true until the present state has been told after it.
	stale   map[types.NamespacedName]bool
	syncing bool
	workers map[types.NamespacedName]*worker
	group   sync.WaitGroup
}

// follow takes the stream. The client resumes it over restarts and lost connections.
func (a *agent) follow(ctx context.Context, c *client.Client) error {
	defer a.group.Wait()
	opts := client.Options{Ops: "ADD,UPDATE,DELETE,REMOVE,SYNC,HOUSEKEEPING", NoMirrorPods: true}
	for update, err := range c.Updates(ctx, opts) {
		if err != nil {
			return err
		}
		a.take(ctx, update)
	}
	return nil
}

// take takes an update of the stream, and wakes the workers that it concerns.
func (a *agent) take(ctx context.Context, u *v1alpha1.Update) {
	if u.Reset {
		a.syncing = true
		for name := range a.wanted {
			a.stale[name] = true
		}
	}
	for _, pod := range u.Pods {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		switch u.Op {
		case "ADD", "UPDATE", "DELETE":
			a.wanted[name] = pod
			delete(a.stale, name)
		case "REMOVE":
			if current := a.wanted[name]; current == nil || current.UID != pod.UID {
				continue // its successor came first
			}
			delete(a.wanted, name)
		}
		a.wake(ctx, name) // with SYNC and HOUSEKEEPING, to look what there is to do
	}
	// After a reset the present state follows. And after a restart of podconfigd that
	// is not all: its sources speak one after the other, and what none has told of yet
	// may still come, until all are ready.
	a.syncing = a.syncing && !u.InitialSyncComplete
	if !a.syncing && u.Ready != nil && *u.Ready {
		for name := range a.stale {
			delete(a.wanted, name)
			a.wake(ctx, name)
		}
		clear(a.stale)
	}
}

// wake has a pod's worker bring the pod to what is wanted now.
func (a *agent) wake(ctx context.Context, name types.NamespacedName) {
	w := a.workers[name]
	if w == nil {
		w = &worker{name: name, runtime: a.runtime, wanted: make(chan *v1.Pod, 1), grace: v1.DefaultTerminationGracePeriodSeconds}
		a.workers[name] = w
		a.group.Go(func() { w.run(ctx) })
	}
	select {
	case <-w.wanted: // what it has not begun with yet is outdated
	default:
	}
	w.wanted <- a.wanted[name]
}

// worker looks after one pod; so a pod that takes long to stop delays no other.
type worker struct {
	name    types.NamespacedName
	runtime *runtime
	// wanted has the pod as it should be, nil if it should not.
	wanted chan *v1.Pod
	// grace is how many seconds its containers have to end.
	grace int64
}

// retries are the waits after a failure: 100 ms, then twice as long each time up to 10 s.
var retries = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 32, Cap: 10 * time.Second}

func (w *worker) run(ctx context.Context) {
	var pod *v1.Pod
	var again <-chan time.Time
	backoff := retries
	for {
		select {
		case <-ctx.Done():
			return
		case pod = <-w.wanted:
			backoff = retries
		case <-again:
		}
		again = nil
		next, err := w.sync(ctx, pod)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause := backoff.Step()
			slog.Error("syncing failed; it is tried again", "pod", w.name, "in", pause, "err", err)
			again = time.After(pause)
		case next > 0:
			again = time.After(next)
		}
	}
}

// sync brings the pod to what is wanted. It returns after what time there is more to
// do, if there is.
func (w *worker) sync(ctx context.Context, pod *v1.Pod) (next time.Duration, err error) {
	if pod != nil && pod.Spec.TerminationGracePeriodSeconds != nil {
		w.grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if pod != nil && (pod.DeletionTimestamp != nil || !pod.Spec.HostNetwork) {
		pod = nil // it is to end, or nothing that can be run here
	}
	id, config, err := w.sandbox(ctx, pod)
	if pod == nil || err != nil {
		return 0, err
	}
	var errs []error
	for i := range pod.Spec.Containers {
		wait, err := w.container(ctx, pod, &pod.Spec.Containers[i], id, config)
		errs = append(errs, err)
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next, errors.Join(errs...)
}

// sandbox removes the sandboxes of the pod's name but the one that is wanted, which
// it returns, and runs it if there is none.
func (w *worker) sandbox(ctx context.Context, pod *v1.Pod) (id string, config *runtimeapi.PodSandboxConfig, err error) {
	sandboxes, err := w.runtime.sandboxes(ctx, w.name)
	if err != nil {
		return "", nil, err
	}
	attempt := uint32(0)
	for _, s := range sandboxes { // the newest first
		if pod != nil && s.GetMetadata().GetUid() == string(pod.UID) {
			if id == "" && s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
				id, attempt = s.GetId(), s.GetMetadata().GetAttempt()
				continue
			}
			attempt = max(attempt, s.GetMetadata().GetAttempt()+1)
		}
		slog.Info("removing", "pod", w.name, "sandbox", s.GetId())
		if err := w.runtime.remove(ctx, s.GetId(), w.grace); err != nil {
			return "", nil, err
		}
	}
	if pod == nil {
		return "", nil, nil
	}
	config = sandboxConfig(pod, attempt)
	if id == "" {
		id, err = w.runtime.runSandbox(ctx, config)
	}
	return id, config, err
}

// container brings one container to what is wanted.
func (w *worker) container(ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox string, config *runtimeapi.PodSandboxConfig) (next time.Duration, err error) {
	status, err := w.runtime.newest(ctx, sandbox, c.Name)
	if err != nil {
		return 0, err
	}
	attempt := uint32(0)
	if status != nil {
		attempt = status.GetMetadata().GetAttempt() + 1
		changed := status.GetAnnotations()[hashKey] != hash(c)
		switch status.GetState() {
		case runtimeapi.ContainerState_CONTAINER_RUNNING:
			if !changed {
				return 0, nil
			}
		case runtimeapi.ContainerState_CONTAINER_EXITED:
			if !changed && !restarts(pod.Spec.RestartPolicy, status.GetExitCode()) {
				return 0, nil
			}
			if wait := time.Until(time.Unix(0, status.GetFinishedAt()).Add(backoff(attempt))); wait > 0 && !changed {
				return wait, nil
			}
		}
		if err := w.runtime.removeContainer(ctx, status.GetId(), w.grace); err != nil {
			return 0, err
		}
	}
	slog.Info("starting", "pod", w.name, "container", c.Name, "attempt", attempt)
	return 0, w.runtime.start(ctx, pod, c, attempt, sandbox, config)
}

// restarts tells whether a container that exited is to run again.
func restarts(policy v1.RestartPolicy, exitCode int32) bool {
	return policy == v1.RestartPolicyAlways || (policy == v1.RestartPolicyOnFailure && exitCode != 0)
}

// backoff is how long a container that exited is left alone.
func backoff(attempt uint32) time.Duration {
	if attempt < 2 {
		return 0
	}
	return min(10*time.Second<<min(attempt-2, 5), 5*time.Minute)
}
