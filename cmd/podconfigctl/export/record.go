package export

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/internal/printable"
)

const (
	// recordSize is about the size of a record without its body.
	recordSize = 400
	gapEvent   = "podconfigd.gap"
)

// ownerKinds are the kinds for which there is a semantic convention, k8s.KIND.name.
var ownerKinds = map[string]string{
	"CronJob": "cronjob", "DaemonSet": "daemonset", "Deployment": "deployment", "Job": "job", "ReplicaSet": "replicaset", "StatefulSet": "statefulset",
}

// converter converts the updates of one stream.
type converter struct {
	*exporter
	// at is the position of the last update.
	at position
	// initial is true for the current pods at the start and after a reset, which have no revision.
	initial bool
	// known is true if nothing is missing at a reset: the current pods are those that were exported.
	known bool
	// held are the pieces of an update before the last one, which has the revision.
	held []*v1alpha1.Update
}

func newConverter(e *exporter, from position) *converter {
	return &converter{exporter: e, at: from, initial: from.Revision == 0}
}

// items returns the items of an update.
func (c *converter) items(u *v1alpha1.Update) (items []item) {
	switch {
	case u.Reset:
		c.diff.Reset()
		c.held, c.initial = nil, true
		if c.known {
			return nil
		}
		why := u.Message
		if c.at.Revision != 0 {
			why = fmt.Sprintf("changes after revision %d can be missing: %s", c.at.Revision, u.Message)
		}
		c.gaps.Inc()
		return []item{{record: gap(c.at, why)}}
	case u.Revision == 0 && !c.initial:
		c.held = append(c.held, u)
		return nil
	}
	for _, piece := range append(c.held, u) {
		piece.Instance, piece.Revision = u.Instance, u.Revision
		for _, pod := range piece.Pods {
			if r := c.record(piece, pod); !c.initial || !c.known {
				items = append(items, item{record: r})
			}
		}
	}
	c.held = nil
	if u.Revision != 0 {
		c.at, c.initial = position{u.Instance, u.Revision}, false
		items = append(items, item{reached: c.at})
	}
	return items
}

// record returns the record of a pod in an update.
func (c *converter) record(u *v1alpha1.Update, pod *v1.Pod) *logs.LogRecord {
	about := attributes{text("podconfigd.instance", u.Instance), text("podconfigd.source", u.Source)}
	about.flag("podconfigd.initial", c.initial)
	about.flag("podconfigd.restored", u.Restored)
	about.pod(pod.Namespace, pod.Name, string(pod.UID))
	about.owners(u.Owners[string(pod.UID)], metav1.GetControllerOfNoCopy(pod))
	body := ""
	switch {
	case u.Op == v1alpha1.OpPLEG:
		body = asJSON(u.Event)
	case c.body == "object":
		body = asJSON(pod)
	case c.body == "diff" && u.Op != v1alpha1.OpSync && u.Op != v1alpha1.OpHousekeeping:
		if change := c.diff.Take(u.Op, pod); change.Before != nil && change.After != nil {
			lines := poddiff.Compare(change.Before, change.After)
			for i := range lines {
				lines[i] = printable.Escape(lines[i]) // a value can have a line break
			}
			body = strings.Join(lines, "\n")
		}
	}
	return newRecord(u.Op, u.Time, u.Revision, about, body)
}

func newRecord(op v1alpha1.Op, at *time.Time, revision int64, about attributes, body string) *logs.LogRecord {
	r := &logs.LogRecord{
		EventName: "podconfigd.pod." + strings.ToLower(string(op)), SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_INFO, SeverityText: "INFO",
		ObservedTimeUnixNano: nanoseconds(time.Now()), Attributes: about,
	}
	if at != nil {
		r.TimeUnixNano = nanoseconds(*at)
	}
	if revision != 0 {
		r.Attributes = append(r.Attributes, &common.KeyValue{
			Key: "podconfigd.revision", Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: revision}},
		})
	}
	if body != "" {
		r.Body = value(body)
	}
	return r
}

// gap returns the record that says that changes after a position are missing, and why.
func gap(after position, why string) *logs.LogRecord {
	r := newRecord("", nil, after.Revision, attributes{text("podconfigd.instance", after.Instance)}, why)
	r.EventName, r.SeverityNumber, r.SeverityText = gapEvent, logs.SeverityNumber_SEVERITY_NUMBER_WARN, "WARN"
	return r
}

func nanoseconds(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

// asJSON returns a value as JSON. The types of Kubernetes and of the stream can always be encoded.
func asJSON(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

// attributes are those of a record.
type attributes []*common.KeyValue

func (a *attributes) flag(key string, is bool) {
	if is {
		*a = append(*a, &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}})
	}
}

func (a *attributes) pod(namespace, name, uid string) {
	*a = append(*a, text("k8s.namespace.name", namespace), text("k8s.pod.name", name), text("k8s.pod.uid", uid))
}

// owners adds the owners, or only the controller if they are not known.
func (a *attributes) owners(owners []v1alpha1.Owner, controller *metav1.OwnerReference) {
	if len(owners) == 0 && controller != nil {
		owners = []v1alpha1.Owner{{Kind: controller.Kind, Name: controller.Name, UID: string(controller.UID)}}
	}
	for i := range owners {
		if kind := ownerKinds[owners[i].Kind]; kind != "" {
			*a = append(*a, text("k8s."+kind+".name", owners[i].Name), text("k8s."+kind+".uid", owners[i].UID))
		}
	}
}

func text(key, of string) *common.KeyValue { return &common.KeyValue{Key: key, Value: value(of)} }

// value returns a text. Protobuf refuses what is not UTF-8.
func value(of string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(of, "\uFFFD")}}
}
