package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// writeTimeout is the maximum time until the answer to a request of a PodWriter.
const writeTimeout = 10 * time.Second

// errNoPod means that a request was successful, and its answer is no pod.
var errNoPod = errors.New("reading the answer of the apiserver")

// PodWriter reads, creates and deletes pods in the apiserver of a kubeconfig, and writes their
// status. It reads the kubeconfig again when it changes. If the apiserver does not accept the
// credentials, a request is tried once more, with a new connection and the credentials as they
// are now. Its errors are those of the apiserver, see k8s.io/apimachinery/pkg/api/errors.
type PodWriter struct{ connector *connector }

// NewPodWriter returns a PodWriter for a kubeconfig, or for the service account of the pod if the
// path is empty. It does nothing before the first request.
func NewPodWriter(kubeconfig, userAgent string) *PodWriter {
	return &PodWriter{newConnector(kubeconfig, userAgent)}
}

// Get returns a pod.
func (w *PodWriter) Get(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return w.do(ctx, func(c rest.Interface) *rest.Request {
		return c.Get().Namespace(namespace).Resource("pods").Name(name)
	})
}

// Create creates a pod, and returns it as the apiserver has it.
func (w *PodWriter) Create(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	return w.do(ctx, func(c rest.Interface) *rest.Request {
		return c.Post().Namespace(pod.Namespace).Resource("pods").Body(pod)
	})
}

// Delete deletes a pod at once, if it still has the UID. It returns the finalizers for which the apiserver
// keeps it.
func (w *PodWriter) Delete(ctx context.Context, namespace, name string, uid types.UID) (finalizers []string, err error) {
	left, err := w.do(ctx, func(c rest.Interface) *rest.Request {
		return c.Delete().Namespace(namespace).Resource("pods").Name(name).Body(&metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &uid},
		})
	})
	if errors.Is(err, errNoPod) { // a Status
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return left.Finalizers, nil
}

// PatchStatus applies a JSON merge patch to the status of a pod, and returns the pod.
func (w *PodWriter) PatchStatus(ctx context.Context, namespace, name string, patch []byte) (*v1.Pod, error) {
	return w.do(ctx, func(c rest.Interface) *rest.Request {
		return c.Patch(types.MergePatchType).Namespace(namespace).Resource("pods").Name(name).SubResource("status").Body(patch)
	})
}

// Close closes the connections.
func (w *PodWriter) Close() { w.connector.close() }

func (w *PodWriter) do(ctx context.Context, request func(rest.Interface) *rest.Request) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(quiet(ctx), writeTimeout)
	defer cancel()
	for attempt := 0; ; attempt++ {
		client, _, broken := w.connector.get()
		if client == nil {
			return nil, errors.Join(errors.New("there are no usable credentials"), broken)
		}
		object, err := request(client.rest).MaxRetries(0).Do(ctx).Get()
		switch {
		case err == nil:
			pod, is := object.(*v1.Pod)
			if !is {
				return nil, fmt.Errorf("%w: %T: expected a pod", errNoPod, object)
			}
			return pod, nil
		case attempt == 0 && (apierrors.IsUnauthorized(err) || refusedInTLS(err)):
			w.connector.distrust(client)
			continue
		case attempt == 0 && errors.Is(err, errReplaced):
			continue // with the client that replaced it
		}
		return nil, client.refused(stable(err))
	}
}
