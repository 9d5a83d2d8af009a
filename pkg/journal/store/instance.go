package store

import (
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// bootID returns the kernel's boot ID, or an empty string.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without one, each start counts as a start after a boot
	return strings.TrimSpace(string(id))
}

func newInstance() string { return string(uuid.NewUUID()) }
