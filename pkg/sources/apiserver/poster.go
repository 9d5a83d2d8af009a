package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

// Patch is as Post, for a patch of a type.
func (p *Poster) Patch(ctx context.Context, path string, patch types.PatchType, body []byte) ([]byte, error) {
	return p.request(ctx, http.MethodPatch, path, string(patch), body)
}

func (p *Poster) request(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	for attempt := 0; ; attempt++ {
		client, _, broken := p.connector.get()
		if client == nil {
			return nil, errors.Join(errors.New("there are no usable credentials"), broken)
		}
		result := client.rest.Verb(method).AbsPath(path).SetHeader("Content-Type", contentType).
			SetHeader("Accept", runtime.ContentTypeJSON).Body(body).Do(ctx)
		err := result.Error() // unlike that of Raw, it has the message of the answer
		if err == nil {
			return result.Raw()
		}
		if attempt == 0 && (apierrors.IsUnauthorized(err) || refusedInTLS(err)) {
			p.connector.distrust(client)
			continue
		}
		if attempt == 0 && errors.Is(err, errReplaced) {
			continue // with the client that replaced it
		}
		return nil, fmt.Errorf("%s %s%s: %w", method, client.server, path, client.refused(err))
	}
}

// Close closes the connections.
func (p *Poster) Close() { p.connector.close() }
