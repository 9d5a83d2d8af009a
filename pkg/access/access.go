// Package access decides what a client sees of a pod.
package access

import (
	"k8s.io/apimachinery/pkg/labels"
)

// Level is how much of a pod a client sees. A greater level has all that a smaller one has.
type Level int

// The levels.
const (
	// None hides the pod.
	None Level = iota
	// Metadata has names, UID, labels, node and status.
	Metadata
	// Redacted has all but the values of environment variables, args, commands, and the
	// annotations that the rule does not list. The names of secrets stay.
	Redacted
	// Full is the whole pod.
	Full
)

// Subject is who asks: the client process of a unix socket, or the authenticated user of a
// TCP connection.
type Subject struct {
	// User and Groups are names. On a unix socket they are those of UID and GIDs, where the
	// system has them.
	User   string
	Groups []string
	// UID and GIDs are those of the client process, with its supplementary groups. UID is nil
	// over TCP.
	UID  *uint32
	GIDs []uint32
}

// Rule gives subjects a level for pods. A list that is empty restricts nothing.
type Rule struct {
	// Users, UIDs, Groups and GIDs are the subjects. A subject that is in one of them matches.
	Users, Groups []string
	UIDs, GIDs    []uint32
	// Sources and Namespaces restrict the pods, and so does LabelSelector, unless it is nil.
	Sources, Namespaces []string
	LabelSelector       labels.Selector
	// View is the level.
	View Level
	// Annotations are the keys of the annotations that stay at the level Redacted.
	Annotations []string
}
