package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Pod is a version of a pod, as a subscriber received it.
type Pod struct {
	Source, Namespace, Name, UID string
	// Version is the label with the version of the pod. Tier is the label for selectors.
	Version, Tier string
	// Status is the message of the pod's status. Grace is its grace period in seconds once it
	// is deleted.
	Status, Grace string
	// Mirror: it is a mirror pod.
	Mirror bool
}

func (p Pod) String() string {
	text := fmt.Sprintf("%s/%s/%s=%s@%s", p.Source, p.Namespace, p.Name, p.UID, p.Version)
	if p.Status != "" {
		text += " status " + p.Status
	}
	if p.Grace != "" {
		text += " deleted in " + p.Grace
	}
	return text
}

// key is the key of a pod in the stream.
type key struct{ source, uid string }

func (p *Pod) key() key { return key{p.Source, p.UID} }

// name is the key of a pod in the Kubernetes API.
type name struct{ namespace, name string }

func (p *Pod) name() name { return name{p.Namespace, p.Name} }

// Selection selects the pods of a subscriber. Empty fields select all.
type Selection struct {
	Source, Namespace, Name, Tier string
	// NoMirrors leaves out mirror pods.
	NoMirrors bool
}

// Matches reports whether the pod is selected.
func (s Selection) Matches(p Pod) bool {
	return (s.Source == "" || s.Source == p.Source) && (s.Namespace == "" || s.Namespace == p.Namespace) &&
		(s.Name == "" || s.Name == p.Name) && (s.Tier == "" || s.Tier == p.Tier) && (!s.NoMirrors || !p.Mirror)
}

// View is the form in which a subscriber gets the pods.
type View int

// The views.
const (
	// Stream is the stream of updates, over HTTP or gRPC, in the incremental mode.
	Stream View = iota
	// Snapshots is the same stream in the mode snapshot.
	Snapshots
	// Names is the Kubernetes API: one pod for each name, each event with its own
	// revision, and no instance.
	Names
	// UIDs is the kubelet's Pods API: one pod for each UID, without revisions.
	UIDs
)

// Operations of messages. The Kubernetes API's ADDED, MODIFIED and DELETED are recorded as
// ADD, UPDATE and REMOVE.
const (
	Add       = "ADD"
	Update    = "UPDATE"
	Remove    = "REMOVE"
	Delete    = "DELETE"
	Reconcile = "RECONCILE"
	Set       = "SET"
	Bookmark  = "BOOKMARK"
	// List is the answer to a list of the Kubernetes API.
	List = "LIST"
)

// Message is one line, message or event.
type Message struct {
	Instance string
	Revision int64
	// Time is the time of the update. All updates of one set have the same.
	Time   time.Time
	Op     string
	Source string
	// Synced is set in the bookmark after the current pods. Reset means that the
	// subscriber must start again; in the Kubernetes API it is the status 410. Continues
	// is set in all pieces of an update except the last.
	Synced, Reset, Continues bool
	Pods                     []Pod
}

func (m *Message) String() string {
	text := []string{m.Op, fmt.Sprint(m.Revision)}
	for _, flag := range []struct {
		set  bool
		text string
	}{{m.Synced, "synced"}, {m.Reset, "reset"}, {m.Continues, "continues"}} {
		if flag.set {
			text = append(text, flag.text)
		}
	}
	return fmt.Sprint(strings.Join(text, " "), " ", m.Pods)
}

// Connection has the messages of one connection.
type Connection struct {
	// Instance and Since are where the subscriber resumed. Since is 0 if it requested the
	// current pods.
	Instance string
	Since    int64
	Messages []*Message
}

// History is what one subscriber received.
type History struct {
	Subscriber string
	View       View
	Selection  Selection
	// Ops are the requested operations; nil for the default.
	Ops         []string
	Connections []*Connection
}

// takesAll reports whether the subscriber gets every update unchanged.
func (h *History) takesAll() bool {
	return h.View == Stream && h.Selection == Selection{} && h.Ops == nil
}

func (h *History) wants(op string) bool { return h.Ops == nil || slices.Contains(h.Ops, op) }
