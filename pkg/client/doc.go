// Package client reads podconfigd's stream of updates.
//
//	c := client.New(client.DefaultSocket())
//	for update, err := range c.Updates(ctx, client.Options{}) {
//		if err != nil {
//			return err
//		}
//		// update.Op, update.Pods
//	}
//
// [New] is for a socket. [NewForConfig] is for an address over TCP, with TLS and credentials:
//
//	c, err := client.NewForConfig(client.Config{Server: "https://node1:10250", BearerTokenFile: "token",
//		TLSClientConfig: client.TLSClientConfig{CAFile: "ca.crt"}})
//
// The loop continues after restarts of the daemon and lost connections. The client resumes by instance and
// revision. It waits between attempts with backoff and jitter, also if there are too many subscribers in
// the meantime. If the client can't resume, the loop gets an update with Reset: forget every pod. The
// current pods follow. Updates that the daemon splits into frames are delivered whole.
//
// For only the current pods, run a [Cache]. It follows the stream, and supports lists,
// names and indexes, among them UIDs, IPs and container IDs.
//
// [Client.Lookup] asks which pod and container a process, a container ID or an IP belongs to.
// It can wait for a container that is about to start.
package client
