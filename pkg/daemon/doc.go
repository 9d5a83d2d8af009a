// Package daemon is podconfigd as a library: it puts the sources, the merge, the sync
// loop, the journal and the server together, and runs them.
//
//	config := daemon.DefaultConfig()
//	config.StaticPodPath = "/etc/kubernetes/manifests"
//	config.Socket = "/run/agent/pods.sock"
//	d, err := daemon.New(config)
//	if err != nil {
//		return err
//	}
//	return d.Run(ctx)
//
// New checks the configuration and builds the parts. It opens no file or socket and
// starts no goroutine. Run opens the sockets, runs everything, and returns when all that
// it started has ended.
//
// The command podconfigd is this package with flags.
package daemon
