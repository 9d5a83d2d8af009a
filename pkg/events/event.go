package events

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"

	"github.com/podconfigd/podconfigd/internal/printable"
)

const (
	// component is the source of the events.
	component = "podconfigd"
	// maxMessage is the maximum length of a message in bytes. It is the limit of the note in events.k8s.io/v1.
	maxMessage = 1024
)

// nodeRef returns the reference to the Node. Its UID is the name of the Node: "kubectl describe node" looks for that too.
func nodeRef(node types.NodeName) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: string(node), UID: types.UID(node)}
}

// mirrorRef returns the reference to a mirror pod. Its UID is that of the static pod: "kubectl describe pod" looks for
// the UID in the annotation of a mirror pod.
func mirrorRef(mirror *v1.Pod) v1.ObjectReference {
	return v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: mirror.Namespace, Name: mirror.Name,
		UID: types.UID(mirror.Annotations[v1.MirrorPodAnnotationKey]),
	}
}

// newEvent returns an event with a new name.
//
// client-go: makeEvent in tools/record/event.go.
func (r *Writer) newEvent(on *v1.ObjectReference, what report, at time.Time) *v1.Event {
	r.serial = max(r.serial+1, time.Now().UnixNano())
	node := string(r.opts.Node)
	return &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: util.GenerateEventName(on.Name, r.serial), Namespace: namespaceOf(on)},
		InvolvedObject: *on,
		Type:           what.eventType, Reason: what.reason, Message: shorten(what.message),
		Source:              v1.EventSource{Component: component, Host: node},
		ReportingController: component, ReportingInstance: node,
		FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at), Count: 1,
	}
}

// namespaceOf returns the namespace of events on an object.
func namespaceOf(on *v1.ObjectReference) string {
	if on.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return on.Namespace
}

// shorten cuts a message that is too long.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(printable.Cut(message, maxMessage-len("…")), "�")
}
