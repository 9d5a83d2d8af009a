package kubeapi

import (
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/failure"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// expired is the status for a compacted revision.
//
// apiserver: apierrors.NewResourceExpired.
func expired(err *journal.CompactedError) *metav1.Status {
	return failure.Status(http.StatusGone, "too old resource version: "+err.Error())
}

// tooLarge is the status for a revision that does not exist yet.
//
// apiserver: apiserver/pkg/storage NewTooLargeResourceVersionError.
func tooLarge(revision, head int64) *metav1.Status {
	status := failure.Status(http.StatusGatewayTimeout,
		fmt.Sprintf("Too large resource version: %d, current: %d", revision, head))
	status.Details = &metav1.StatusDetails{
		RetryAfterSeconds: 1,
		Causes:            []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}},
	}
	return status
}

func notFound(w http.ResponseWriter, r *http.Request) {
	if instead := failure.Instead(r.URL.Path); instead != "" {
		respond.Error(w, http.StatusNotFound, instead)
		return
	}
	respond.Error(w, http.StatusNotFound, fmt.Sprintf(
		"the server could not find the requested resource: there is nothing at %s; podconfigd has %s", r.URL.Path, resourceNames()))
}

func badRequest(err error) *metav1.Status {
	return failure.Status(http.StatusBadRequest, err.Error())
}

// notAcceptable is the status for a format that is not served.
func notAcceptable(r *http.Request) *metav1.Status {
	return failure.Status(http.StatusNotAcceptable, fmt.Sprintf(
		"only the following media types are accepted: %s and %s, both also with as=PartialObjectMetadata (for a list, as=PartialObjectMetadataList);g=meta.k8s.io;v=v1, "+
			"and %s;as=Table;g=meta.k8s.io;v=v1; not %q",
		jsonType, protobufType, jsonType, r.Header.Get("Accept")))
}

// resourceNames returns the names of all resources.
func resourceNames() string {
	names := make([]string, len(resources))
	for i, res := range resources {
		names[i] = res.Name
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
