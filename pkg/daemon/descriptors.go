package daemon

import (
	"math"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// reservedDescriptors are the file descriptors that connections of clients never take: those
// of the sources, the runtime, the listeners, the log, and of the Go runtime. About 20 are
// in use where everything is.
const reservedDescriptors = 32

// descriptorLimit returns how many file descriptors the process may have. The Go runtime
// has raised the soft limit to the hard one.
func descriptorLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32 // there is always one
	}
	return int(min(limit.Cur, math.MaxInt32))
}

// tellConnections logs where file descriptors limit connections to fewer than the
// configuration asks for.
func (d *Daemon) tellConnections(logger klog.Logger) {
	if have, want := d.server.MaxConnections(), 2*d.config.MaxSubscribers; have < want {
		logger.Info("File descriptors limit the connections of clients; raise RLIMIT_NOFILE, for example with LimitNOFILE= of systemd",
			"RLIMIT_NOFILE", descriptorLimit(), "connections", have, "wanted", want)
	}
}
