package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
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
	for attempt := 0; ; attempt++ {
		client, _, broken := p.connector.get()
		if client == nil {
			return nil, errors.Join(errors.New("there are no usable credentials"), broken)
		}
		answer, err := client.rest.Post().AbsPath(path).SetHeader("Content-Type", runtime.ContentTypeJSON).
			SetHeader("Accept", runtime.ContentTypeJSON).Body(body).Do(ctx).Raw()
		if err == nil {
			return answer, nil
		}
		if attempt == 0 && (apierrors.IsUnauthorized(err) || refusedInTLS(err)) {
			p.connector.distrust(client)
			continue
		}
		return nil, fmt.Errorf("%s %s%s: %w", http.MethodPost, client.server, path, client.refused(err))
	}
}

// Close closes the connections.
func (p *Poster) Close() { p.connector.close() }
