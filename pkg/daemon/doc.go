// Package daemon is podconfigd as a library. It builds the sources, the merge, the sync
// loop, the journal and the server, connects them, and runs them.
//
//	d, err := daemon.New(daemon.Config{PodConfigdConfiguration: v1alpha1.PodConfigdConfiguration{
//		StaticPodPath: "/etc/kubernetes/manifests",
//		Socket:        new("/run/agent/pods.sock"),
//	}})
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
