package kubeapi

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podconfigd/podconfigd/pkg/journal"
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
	// table: as rows. With include that says what of the pod goes with a row.
	table   bool
	include metav1.IncludeObjectPolicy
}

// negotiate returns the first form that the request accepts and this server has, or
// nil.
func negotiate(r *http.Request) *form {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept == "" {
		accept = jsonType
	}
	include := metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject"))
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		f := &form{contentType: jsonType, include: include}
		switch as := params["as"]; {
		case as == "":
		case as == "Table" && params["g"] == metav1.GroupName && params["v"] == "v1" && media == jsonType:
			f.table = true
			f.contentType = "application/json;as=Table;g=meta.k8s.io;v=v1"
		default:
			continue
		}
		switch media {
		case jsonType, "application/*", "*/*":
			return f
		case protobufType:
			f.contentType, f.protobuf = protobufType, true
			return f
		}
	}
	return nil
}

func notAcceptable(r *http.Request) *metav1.Status {
	return respond.StatusOf(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, fmt.Sprintf(
		"only the following media types are accepted: %s, also as=Table;g=meta.k8s.io;v=v1, and %s; not %q",
		jsonType, protobufType, r.Header.Get("Accept")))
}

// object returns one pod.
func (f *form) object(pod *journal.Pod) ([]byte, error) {
	switch {
	case f.table:
		return f.tableOf(true, pod.Revision, pod)
	case f.protobuf:
		raw, err := pod.AppendProtobuf(nil, pod.Revision)
		if err != nil {
			return nil, err
		}
		return envelope("Pod", raw)
	}
	return pod.AppendJSON(nil, pod.Revision)
}

// magic is what a protobuf object of Kubernetes begins with.
var magic = []byte("k8s\x00")

// envelope puts a protobuf message into what says its kind.
//
// apimachinery: pkg/runtime/serializer/protobuf.
func envelope(kind string, raw []byte) ([]byte, error) {
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
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
	return envelope("Status", raw)
}
