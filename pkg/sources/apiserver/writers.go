package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Poster posts requests to the apiserver of a kubeconfig, which it reads again when it changes.
type Poster struct{ connector *connector }

// NewPoster returns a Poster for a kubeconfig, or for the service account of the pod if the path is
// empty. It does nothing before Post.
func NewPoster(kubeconfig, userAgent string) *Poster {
	return &Poster{newConnector(kubeconfig, userAgent)}
}

// Post posts JSON to a path, and returns the answer. If the apiserver does not accept the
// credentials, Post tries once more, with a new connection and the credentials as they are now.
func (p *Poster) Post(ctx context.Context, path string, body []byte) ([]byte, error) {
	return p.request(ctx, http.MethodPost, path, runtime.ContentTypeJSON, body)
}

// Patch sends a patch of a type to a path, and returns the answer. It tries twice, like Post.
func (p *Poster) Patch(ctx context.Context, path string, patch types.PatchType, body []byte) ([]byte, error) {
	return p.request(ctx, http.MethodPatch, path, string(patch), body)
}

func (p *Poster) request(ctx context.Context, method, path, contentType string, body []byte) (answer []byte, err error) {
	client, err := p.connector.try(func(client *client) (err error) {
		result := client.rest.Verb(method).AbsPath(path).SetHeader("Content-Type", contentType).
			SetHeader("Accept", runtime.ContentTypeJSON).Body(body).MaxRetries(0).Do(ctx)
		if err := result.Error(); err != nil { // unlike the error of Raw, it has the message of the answer
			return err
		}
		answer, err = result.Raw()
		return err
	})
	switch {
	case client == nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s %s%s: %w", method, client.server, path, client.refused(err))
	}
	return answer, nil
}

// Close closes the connections.
func (p *Poster) Close() { p.connector.close() }

// askTimeout is the maximum time until the answer to a request of a PodWriter or a MetadataReader.
const askTimeout = 10 * time.Second

// errOther means that a request was successful, and its answer is another object than it must be.
var errOther = errors.New("reading the answer of the apiserver")

// PodWriter reads, creates and deletes pods in the apiserver of a kubeconfig, and writes their
// status. It reads the kubeconfig again when it changes. If the apiserver does not accept the
// credentials, a request is tried once more, with a new connection and the credentials as they are
// now. Its errors are the errors of the apiserver, see k8s.io/apimachinery/pkg/api/errors.
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
	if errors.Is(err, errOther) { // a Status
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
	return ask[*v1.Pod](ctx, w.connector, "a pod", request)
}

// ask makes a request whose answer is a T, which errors call what.
func ask[T runtime.Object](ctx context.Context, c *connector, what string, request func(rest.Interface) *rest.Request) (answer T, err error) {
	ctx, cancel := context.WithTimeout(quiet(ctx), askTimeout)
	defer cancel()
	client, err := c.try(func(client *client) error {
		result := request(client.rest).MaxRetries(0).Do(ctx)
		object, err := result.Get()
		if runtime.IsMissingVersion(err) { // an apiserver leaves it out of the list of resources of the core group
			list := new(metav1.APIResourceList)
			object, err = list, result.Into(list)
		}
		if err != nil {
			return err
		}
		var ok bool
		if answer, ok = object.(T); !ok {
			return fmt.Errorf("%w: %T: expected %s", errOther, object, what)
		}
		return nil
	})
	switch {
	case client == nil:
		return answer, err
	case err != nil:
		return answer, client.refused(stable(err))
	}
	return answer, nil
}
