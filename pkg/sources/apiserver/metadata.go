package apiserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// MetadataReader reads the metadata of objects in the apiserver of a kubeconfig. It reads the kubeconfig again when it
// changes. If the apiserver does not accept the credentials, a request is tried once more, as with a PodWriter. Its errors
// are the errors of the apiserver, see k8s.io/apimachinery/pkg/api/errors.
type MetadataReader struct{ connector *connector }

// NewMetadataReader returns a MetadataReader for a kubeconfig, or for the service account of the pod if the path is empty.
// It does nothing before the first request.
func NewMetadataReader(kubeconfig, userAgent string) *MetadataReader {
	return &MetadataReader{newConnector(kubeconfig, userAgent)}
}

// Get returns the metadata of the object at a path.
func (r *MetadataReader) Get(ctx context.Context, path string) (*metav1.PartialObjectMetadata, error) {
	return ask[*metav1.PartialObjectMetadata](ctx, r.connector, "the metadata of an object", func(c rest.Interface) *rest.Request {
		return c.Get().AbsPath(path).SetHeader("Accept", metadataObject)
	})
}

// Resources returns the resources at a path, which is that of a version of a group, such as /apis/apps/v1.
func (r *MetadataReader) Resources(ctx context.Context, path string) (*metav1.APIResourceList, error) {
	return ask[*metav1.APIResourceList](ctx, r.connector, "a list of resources", func(c rest.Interface) *rest.Request {
		return c.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON)
	})
}

// Close closes the connections.
func (r *MetadataReader) Close() { r.connector.close() }
