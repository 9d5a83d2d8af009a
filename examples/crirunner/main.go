// Command crirunner runs the pods of podconfigd's stream in a container runtime. It is a
// small node agent:
//
//   - It runs the containers of pods with hostNetwork, with their commands and environment.
//   - It restarts exited containers according to the restart policy.
//   - It replaces changed containers and removes pods that are removed from the stream.
//
// It does not do what else a kubelet does, for example probes, init containers, networks
// and volumes.
//
//	podconfigd --pod-manifest-path DIR --container-runtime-endpoint unix:///run/containerd/containerd.sock
//	crirunner --container-runtime-endpoint unix:///run/containerd/containerd.sock
//
// crirunner keeps no state. The runtime has the running containers, and the stream has the
// desired pods. So a restart of crirunner, podconfigd or the runtime stops no container.
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
	endpoint := flag.String("container-runtime-endpoint", "unix:///run/containerd/containerd.sock", "CRI socket of the container runtime")
	socket := flag.String("socket", client.DefaultSocket(), "path of the socket of podconfigd")
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

// agent has the desired pods, and a worker for each pod name. It identifies pods by name:
// an edited static pod has a new UID, and must not run before the old one is removed.
type agent struct {
	runtime *runtime
	wanted  map[types.NamespacedName]*v1.Pod
	// stale has the pods from before a reset that were not sent again yet. syncing is true
	// after a reset until the current pods are complete.
	stale   map[types.NamespacedName]bool
	syncing bool
	workers map[types.NamespacedName]*worker
	group   sync.WaitGroup
}

// follow reads the stream. The client resumes it after restarts and lost connections.
func (a *agent) follow(ctx context.Context, c *client.Client) error {
	defer a.group.Wait()
	opts := client.Options{
		Ops: []v1alpha1.Op{
			v1alpha1.OpAdd, v1alpha1.OpUpdate, v1alpha1.OpDelete, v1alpha1.OpRemove, v1alpha1.OpSync, v1alpha1.OpHousekeeping,
		},
		NoMirrorPods: true,
	}
	for update, err := range c.Updates(ctx, opts) {
		if err != nil {
			return err
		}
		a.take(ctx, update)
	}
	return nil
}

// take applies an update of the stream, and wakes the workers of its pods.
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
		case v1alpha1.OpAdd, v1alpha1.OpUpdate, v1alpha1.OpDelete:
			a.wanted[name] = pod
			delete(a.stale, name)
		case v1alpha1.OpRemove:
			if current := a.wanted[name]; current == nil || current.UID != pod.UID {
				continue // the pod that replaces it was added first
			}
			delete(a.wanted, name)
		}
		a.wake(ctx, name) // also for SYNC and HOUSEKEEPING
	}
	// After a reset, the current pods follow. After a restart of podconfigd, they are not
	// complete until all sources are ready, because each source delivers its set on its own.
	a.syncing = a.syncing && !u.InitialSyncComplete
	if !a.syncing && u.Ready != nil && *u.Ready {
		for name := range a.stale {
			delete(a.wanted, name)
			a.wake(ctx, name)
		}
		clear(a.stale)
	}
}

// wake sends the desired state of the pod to its worker.
func (a *agent) wake(ctx context.Context, name types.NamespacedName) {
	w := a.workers[name]
	if w == nil {
		w = &worker{name: name, runtime: a.runtime, wanted: make(chan *v1.Pod, 1), grace: v1.DefaultTerminationGracePeriodSeconds}
		a.workers[name] = w
		a.group.Go(func() { w.run(ctx) })
	}
	select {
	case <-w.wanted: // discard the state that the worker has not received yet
	default:
	}
	w.wanted <- a.wanted[name] //nolint:ctxsend // it has room, and only this goroutine sends
}

// worker manages one pod. So a pod that stops slowly does not delay other pods.
type worker struct {
	name    types.NamespacedName
	runtime *runtime
	// wanted has the desired pod, or nil if the pod must be removed.
	wanted chan *v1.Pod
	// grace is the time in seconds that its containers have to stop.
	grace int64
}

// retries are the waits after a failure: 100 ms, doubled each time, up to 10 s.
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
			slog.Error("failed to sync, retrying", "pod", w.name, "in", pause, "err", err)
			again = time.After(pause)
		case next > 0:
			again = time.After(next)
		}
	}
}

// sync brings the pod to the desired state. It returns the time until the next sync, or 0.
func (w *worker) sync(ctx context.Context, pod *v1.Pod) (next time.Duration, err error) {
	if pod != nil && pod.Spec.TerminationGracePeriodSeconds != nil {
		w.grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if pod != nil && (pod.DeletionTimestamp != nil || !pod.Spec.HostNetwork) {
		pod = nil // it must stop, or crirunner does not support it
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

// sandbox returns the sandbox of the pod, and runs one if there is none. It removes all
// other sandboxes with the name of the pod.
func (w *worker) sandbox(ctx context.Context, pod *v1.Pod) (id string, config *runtimeapi.PodSandboxConfig, err error) {
	sandboxes, err := w.runtime.sandboxes(ctx, w.name)
	if err != nil {
		return "", nil, err
	}
	attempt := uint32(0)
	for _, s := range sandboxes { // newest first
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

// container brings one container to the desired state.
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

// restarts reports whether an exited container must be restarted.
func restarts(policy v1.RestartPolicy, exitCode int32) bool {
	return policy == v1.RestartPolicyAlways || (policy == v1.RestartPolicyOnFailure && exitCode != 0)
}

// backoff returns the time between the exit of a container and its restart.
func backoff(attempt uint32) time.Duration {
	if attempt < 2 {
		return 0
	}
	return min(10*time.Second<<min(attempt-2, 5), 5*time.Minute)
}
