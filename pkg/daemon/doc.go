// Package daemon is podconfigd as a library. It builds the sources, the merge, the sync
// loop, the journal and the server, connects them, and runs them.
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
// New validates the configuration and builds the parts. It opens no socket and starts no
// goroutine. Run opens the sockets and runs the parts. It returns when all goroutines that
// it started have ended.
//
// The command podconfigd adds flags to this package.
package daemon
