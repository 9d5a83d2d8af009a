// Package e2e runs the real binary on a real socket, for the tests in its folders. They are in folders by
// what they join to the daemon: apiserver, runtime, kubelet, clients; and daemon for the process itself.
//
//	d := e2e.Start(t, testutil.ShortDir(t))
//	d.Mkdir(t)
//	s := d.Watch(t, client.Options{})
//	e2e.SyncUp(t, s)
//	d.Put(t, "web", "nginx:1")
//	s.Expect(t, "ADD web-node1")
package e2e
