// Package wire encodes pods and frames as JSON and as protobuf. The first subscriber that
// needs a version of a pod, or the header of a frame, encodes it. All subscribers share
// the bytes.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// lineKey is the key of a line's header in the memo of a frame.
type lineKey struct{}

// AppendLine appends the frame as one line of JSON.
func AppendLine(to []byte, f *view.Frame) ([]byte, error) {
	header, err := journal.Once(&f.Memo, lineKey{}, func() ([]byte, error) { return encodeHeader(f) })
	if err != nil {
		return to, err
	}
	if f.Op == config.BOOKMARK || f.Op == config.METADATA {
		return append(append(to, header...), '\n'), nil
	}
	to = append(to, header[:len(header)-1]...) // without the last brace
	if to, err = appendPods(append(to, `,"pods":[`...), f.Pods); err != nil {
		return to, err
	}
	return append(to, "]}\n"...), nil
}

// encodeHeader encodes everything except the pods.
func encodeHeader(f *view.Frame) ([]byte, error) {
	u := v1alpha1.Update{
		Instance: f.Instance, Revision: f.Revision, Op: v1alpha1.Op(f.Op.String()), Source: f.Source,
		InitialSyncComplete: f.InitialSyncComplete, Reset: f.Reset, Restored: f.Restored, Continues: f.Continues,
		Message: f.Message, Event: f.Event, Namespaces: f.Namespaces, Node: f.Node,
	}
	if !f.Time.IsZero() {
		u.Time = &f.Time
	}
	if b := f.Bookmark; b != nil {
		u.Ready, u.Sources = &b.Ready, b.Sources
	}
	for uid, owners := range f.OwnersOfPods() {
		if u.Owners == nil {
			u.Owners = make(map[string][]v1alpha1.Owner)
		}
		u.Owners[string(uid)] = owners
	}
	data, err := json.Marshal(&u)
	if err != nil {
		return nil, fmt.Errorf("encoding update %d: %w", f.Revision, err)
	}
	return data, nil
}

func appendPods(to []byte, pods []*journal.Pod) ([]byte, error) {
	for i, p := range pods {
		if i > 0 {
			to = append(to, ',')
		}
		data, err := JSON(p)
		if err != nil {
			return to, err
		}
		to = append(to, data...)
	}
	return to, nil
}

// WriteList writes the pods as a v1 PodList.
func WriteList(w io.Writer, revision int64, pods []*journal.Pod) error {
	return writeList(w, revision, pods, JSON)
}

// WriteObjects writes a list whose pods are as in the Kubernetes API: the resourceVersion of each
// is the revision of its version, and a static pod has a creationTimestamp.
func WriteObjects(w io.Writer, revision int64, pods []*journal.Pod) error {
	var buffer []byte
	return writeList(w, revision, pods, func(p *journal.Pod) (data []byte, err error) {
		buffer, err = AppendJSON(buffer[:0], p, p.Revision)
		return buffer, err
	})
}

func writeList(w io.Writer, revision int64, pods []*journal.Pod, encode func(*journal.Pod) ([]byte, error)) error {
	between := fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[`, revision)
	for _, p := range pods {
		data, err := encode(p)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, between); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		between = ","
	}
	if len(pods) > 0 {
		between = ""
	}
	_, err := io.WriteString(w, between+"]}\n")
	return err
}

// A pod is encoded once for each format. The format of the Kubernetes API differs in two
// fields of the metadata, which are inserted into the bytes: resourceVersion is the
// journal's revision, and a static pod gets a creationTimestamp.

// formKey is the key of a format in the memo of a pod.
type formKey int

const (
	jsonKey formKey = iota
	protobufKey
	metadataJSONKey
	metadataProtobufKey
)

// encodes counts for the whole process, because an encoding belongs to no server.
var encodes = metric.In(nil, "journal").CounterVec("pod_encodes_total", "Versions of pods encoded, by wire form; each is encoded once a form.", "form")

// Encodes returns the metric of encoded versions of pods.
func Encodes() *prometheus.CounterVec { return encodes }

// jsonForm is a pod's JSON, and the position of its resourceVersion.
type jsonForm struct {
	data []byte
	// start and end are the range of the member "resourceVersion" with its comma.
	start, end int
	// created is the member "creationTimestamp" for a pod without one.
	created []byte
}

const (
	jsonMetadata          = `"metadata":{`
	jsonResourceVersion   = `"resourceVersion":`
	jsonCreationTimestamp = `"creationTimestamp":`
)

// encodePodJSON encodes the whole pod.
func encodePodJSON(p *journal.Pod) (jsonForm, error) {
	if p.Fields != nil {
		data, err := p.Fields.JSON(p.Object)
		if err != nil {
			return jsonForm{}, fmt.Errorf("encoding pod %s/%s: %w", p.Object.Namespace, p.Object.Name, err)
		}
		return jsonForm{data: data}, nil // the Kubernetes API has no such pods
	}
	whole := *p.Object
	whole.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return encodeJSON(&whole, &p.Object.ObjectMeta)
}

// encodeJSON encodes an object with the metadata of a pod.
func encodeJSON(object any, pod *metav1.ObjectMeta) (jsonForm, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return jsonForm{}, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	f := jsonForm{data: data}
	// Quotes within strings are escaped, and nothing before has such members. So these
	// are the first.
	f.start = bytes.Index(f.data, []byte(jsonMetadata)) + len(jsonMetadata)
	f.end = f.start
	if pod.ResourceVersion != "" {
		value, err := json.Marshal(pod.ResourceVersion)
		if err != nil {
			return jsonForm{}, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		member := append([]byte(jsonResourceVersion), value...)
		f.start += bytes.Index(f.data[f.start:], member)
		f.end = f.start + len(member)
		switch {
		case f.data[f.end] == ',':
			f.end++
		case f.data[f.start-1] == ',': // it is the last one
			f.start--
		}
	}
	if created := firstSeen(pod); !created.IsZero() {
		value, err := created.MarshalJSON()
		if err != nil {
			return jsonForm{}, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		f.created = append([]byte(jsonCreationTimestamp), value...)
	}
	return f, nil
}

func jsonOf(p *journal.Pod) (jsonForm, error) {
	return journal.Once(p.Memo, jsonKey, func() (jsonForm, error) {
		encodes.WithLabelValues("json").Inc()
		return encodePodJSON(p)
	})
}

// JSON returns the pod's JSON with apiVersion and kind. The bytes are read-only.
func JSON(p *journal.Pod) ([]byte, error) {
	f, err := jsonOf(p)
	return f.data, err
}

// AppendJSON appends the pod's JSON for the Kubernetes API. The revision is its
// resourceVersion.
func AppendJSON(to []byte, p *journal.Pod, revision int64) ([]byte, error) {
	f, err := jsonOf(p)
	if err != nil {
		return to, err
	}
	return f.append(to, revision), nil
}

// append appends the JSON with a resourceVersion, and with a creationTimestamp if it has
// none.
func (f *jsonForm) append(to []byte, revision int64) []byte {
	to = append(to, f.data[:f.start]...)
	last := to[len(to)-1]
	if last != '{' && last != ',' {
		to = append(to, ',')
	}
	to = append(to, jsonResourceVersion...)
	to = append(to, '"')
	to = strconv.AppendInt(to, revision, 10)
	to = append(to, '"')
	if len(f.created) > 0 {
		to = append(to, ',')
		to = append(to, f.created...)
	}
	if f.data[f.end] != '}' {
		to = append(to, ',')
	}
	return append(to, f.data[f.end:]...)
}
