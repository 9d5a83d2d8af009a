package daemon

import (
	"math"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// reservedDescriptors is the number of file descriptors that connections of clients never
// take. The sources, the container runtime, the listeners, the log and the Go runtime use
// them, about 20 with all features.
const reservedDescriptors = 32

// descriptorsPerSource is the number of file descriptors of each source with a name of its own:
// inotify, a manifest that is read, and a connection.
const descriptorsPerSource = 4

// descriptorLimit returns the maximum number of file descriptors of the process. The Go
// runtime has raised the soft limit to the hard limit.
func descriptorLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32 // this does not happen: the limit always exists
	}
	return int(min(limit.Cur, math.MaxInt32))
}

// logConnections logs if the file descriptors allow fewer connections than the configuration
// requests.
func (d *Daemon) logConnections(logger klog.Logger) {
	if have, want := d.server.MaxConnections(), 2*int(*d.config.MaxSubscribers); have < want {
		logger.Info("File descriptors limit the connections of clients; raise RLIMIT_NOFILE, for example with LimitNOFILE= of systemd",
			"RLIMIT_NOFILE", descriptorLimit(), "connections", have, "wanted", want)
	}
}
