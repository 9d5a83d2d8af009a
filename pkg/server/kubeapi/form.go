package kubeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

// form is how a request wants its answer.
type form struct {
	contentType string
	protobuf    bool
	// kind is what pods are shown as, and asked the kind that the request names, "" for
	// none.
	kind  *kind
	asked string
	// table: as rows. With include that says what of the pod goes with a row.
	table   bool
	include metav1.IncludeObjectPolicy
}

// negotiate returns the form of the greatest weight that the request accepts and this
// server has, or nil.
func negotiate(r *http.Request) *form {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept == "" {
		accept = jsonType
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		if f := formOf(&clause); f != nil {
			f.include = metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))
			return f
		}
	}
	return nil
}

// formOf returns the form that a clause of the header Accept asks for, or nil.
func formOf(clause *goautoneg.Accept) *form {
	f := &form{kind: pods, asked: clause.Params["as"]}
	switch clause.Type + "/" + clause.SubType {
	case jsonType, "application/*", "*/*":
		f.contentType = jsonType
	case protobufType:
		f.contentType, f.protobuf = protobufType, true
	default:
		return nil
	}
	version := schema.GroupVersion{Group: clause.Params["g"], Version: clause.Params["v"]}
	switch {
	case f.asked == "" && version.Empty():
		return f
	case version != metav1.SchemeGroupVersion:
		return nil
	case f.asked == "Table" && !f.protobuf:
		f.table = true
		return f
	case f.asked == partialMetadata.name, f.asked == partialMetadata.list:
		f.kind = partialMetadata
		return f
	}
	return nil
}

// fits says what is wrong where the form is not one of a list, or only one of lists.
//
// apiserver: pkg/endpoints/handlers asPartialObjectMetadata, asPartialObjectMetadataList.
func (f *form) fits(list bool) *metav1.Status {
	var problem string
	switch {
	case list && f.asked == partialMetadata.name:
		problem = "a list"
	case !list && f.asked == partialMetadata.list:
		problem = "not a list"
	default:
		return nil
	}
	return respond.StatusOf(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		fmt.Sprintf("you requested %s, but the requested object is %s", f.asked, problem))
}

// check holds the parameters of the form to what they may be.
func (f *form) check() error {
	switch f.include {
	case "", metav1.IncludeMetadata, metav1.IncludeObject, metav1.IncludeNone:
		return nil
	}
	if !f.table {
		return nil
	}
	return fmt.Errorf("expected Metadata, Object or None, got %q", f.include)
}

// magic is what a protobuf object of Kubernetes begins with.
var magic = []byte("k8s\x00")

// envelope puts a protobuf message into one that says its kind.
//
// apimachinery: pkg/runtime/serializer/protobuf.
func envelope(version, kind string, raw []byte) ([]byte, error) {
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}
	data := make([]byte, len(magic)+unknown.Size())
	copy(data, magic)
	if _, err := unknown.MarshalToSizedBuffer(data[len(magic):]); err != nil {
		return nil, fmt.Errorf("encoding a %s: %w", kind, err)
	}
	return data, nil
}

// status returns a status as an object of this form.
func (f *form) status(s *metav1.Status) ([]byte, error) {
	if !f.protobuf {
		return json.Marshal(s)
	}
	raw, err := s.Marshal()
	if err != nil {
		return nil, err
	}
	return envelope("v1", "Status", raw)
}
