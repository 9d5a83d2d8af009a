package store

import (
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Recovered is the start of a journal.
type Recovered struct {
	journal.Recovered

	// Current are the pods at Revision, by source, namespace, name and UID: Pods with the changes of Sets.
	Current []*journal.Pod
	// Resumed is true if the instance is that of the last process. Otherwise Reason is
	// why it is new.
	Resumed bool
	Reason  string
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
