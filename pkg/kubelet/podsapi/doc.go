// Package podsapi is a client of the kubelet's Pods API. It keeps the last status of each pod, which has what only the
// kubelet knows: results of probes, reasons of waiting containers, deadlines and evictions:
//
//	c := podsapi.New(podsapi.Options{Interval: time.Minute})
//	go c.Run(ctx)
//	<-c.Watch()
//	for _, uid := range c.Changed() {
//		status, live := c.Status(uid)
//		...
//	}
//
// # Which status is newer
//
// The server keeps no order: the initial events, the later events, and the answers to ListPods and GetPod overtake each
// other. Events of one pod can swap. A status has no version. So the Client relies on the time of its requests:
//
//   - An answer is at least as new as each event that came before the request. It replaces the status, unless another event
//     came in between.
//   - An event replaces the status only if its times and counters show that it is newer. Otherwise, the Client calls GetPod.
//   - The events that a watch begins with replace no status that looks newer. A list does.
//   - A pod that is not in a list is gone. Within an interval after the Client has connected, the status of a pod that a source
//     has stands nevertheless: a kubelet 1.36 that has just started lists only the pods that its sources have given so far.
//   - The event DELETED has no status. It means that a pod is finished. GetPod returns the final status.
//
// # Lost events
//
// The kubelet drops a client that is 100 events behind. The Client then connects again, and gets all pods. A kubelet that is
// itself 1,000 events behind loses events and does not say so. The Client finds these changes with a list in each interval.
//
// kubelet: pkg/kubelet/apis/pods/server.go of v1.37; KEP-4188.
package podsapi
