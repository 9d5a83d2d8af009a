package socket

import (
	"context"
	"net"
	"os"
	"strconv"
	"syscall"

	"k8s.io/klog/v2"
)

// Adopt returns a listener for a socket that the service manager made. Its file belongs to the
// service manager: Close does not remove it, and its mode and owner stay.
//
// If the file is removed while a Server serves the listener, the Server makes a socket of its own
// with the same mode and owner. If there is no file, or no process serves it, Adopt makes one with
// the mode and group of the options. The service manager has the socket without a file until the
// socket unit is restarted.
func Adopt(ctx context.Context, opts ListenOptions, passed *net.UnixListener) (net.Listener, error) {
	file, err := os.Lstat(opts.Path)
	if err == nil && !isStale(dial(ctx, opts.Path)) {
		if owner, ok := file.Sys().(*syscall.Stat_t); ok {
			opts.Mode, opts.Group, opts.uid = file.Mode().Perm(), strconv.FormatUint(uint64(owner.Gid), 10), int(owner.Uid)+1
		}
		return &listener{opts: opts, socket: &socket{UnixListener: passed, file: file, passed: true}}, nil
	}
	klog.FromContext(ctx).Info("The file of the service manager's socket is gone; creating the socket. To give it back to the service manager, restart the socket unit together with the service",
		"socket", opts.Path)
	_ = passed.Close() // no client can connect to it
	return Listen(ctx, opts)
}
