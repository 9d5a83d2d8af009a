package store

import (
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Set is the changes by one set of a source: the unit that is stored and restored.
// Without updates it only advances the revision. It is immutable after it has been
// appended.
type Set struct {
	// First is the revision of its first pod, and Revision its last one.
	First, Revision int64
	Time            time.Time
	Updates         []Update
	// Named are pods that have got another revision under their name, and are in none of
	// Updates. Only source, UID and ByName are stored.
	Named []Pod
	// Sources has the new state of sources, except for their pods. It may be empty.
	Sources []Source
}

// Update is one operation of a set.
type Update struct {
	// Revision is the last one of the update. The update's first revision follows the
	// last one of the previous update, and each pod has the next one.
	Revision int64
	Op       config.PodOperation
	Source   string
	// StatusOnly is true if only the statuses from the runtime changed, and the source sent
	// nothing.
	StatusOnly bool
	// Pods are in the order of the update. For a REMOVE, only namespace, name and UID are
	// stored.
	Pods []Pod
}

// Pod is a version of a pod.
type Pod struct {
	Source string
	// Revision is the revision of this version.
	Revision int64
	// ByName is the revision of the version under its name, if it is another one.
	ByName int64
	// Object is the pod as the source sent it.
	Object *v1.Pod
	// Status is the status that was shown instead of that of Object, or nil.
	Status *v1.PodStatus
	// File is the manifest file of the version, or nil.
	File *config.File
	// TooLarge is true if the pod was too large to be stored. Then only namespace, name and UID of Object
	// are known.
	TooLarge bool
}

// Shown returns the pod as it was shown.
func (p *Pod) Shown() *v1.Pod {
	if p.Object == nil {
		return nil
	}
	return config.WithStatus(p.Object, p.Status)
}

// Source is the state of a source, except for its pods.
type Source struct {
	Name string
	// Seen is true if the source has delivered a set.
	Seen bool
	// Time is the time of its last set.
	Time time.Time
	// Attributes are the source's own, such as the ETag of its last set.
	Attributes map[string]string
}

// Commit describes how to show a set.
type Commit struct {
	// Instance is the instance under which the set is shown.
	Instance string
	// Stored is true if the set has been written.
	Stored bool
}

// Recovered is the start of a journal.
type Recovered struct {
	// Instance is the instance's ID.
	Instance string
	// Resumed is true if the instance is that of the last process. Otherwise Reason is
	// why it is new.
	Resumed bool
	Reason  string
	// Revision is the newest revision of the instance.
	Revision int64
	// Reserved is not below any revision that an earlier process may have shown. The next
	// set is above it.
	Reserved int64
	// Pods are the state at the revision Base. Sets came after it.
	Base int64
	Pods []Pod
	Sets []*Set
	// Sources are the sources at Revision, by name.
	Sources map[string]Source
	// Problems are for the log of the daemon.
	Problems []Problem
}

// Problem is a problem that was found at a start.
type Problem struct {
	// File is the name of the file, and Aside its new name if it was set aside.
	File, Aside string
	Err         error
}

// bootID returns the kernel's boot ID, or an empty string.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without one, each start counts as a start after a boot
	return strings.TrimSpace(string(id))
}

func newInstance() string { return string(uuid.NewUUID()) }
