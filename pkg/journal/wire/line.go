// Package wire encodes pods and frames as JSON and as protobuf. The first subscriber that
// needs a version of a pod, or the header of a frame, encodes it. All subscribers share
// the bytes.
package wire

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
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
