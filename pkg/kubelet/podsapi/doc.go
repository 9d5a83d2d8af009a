// Package podsapi is a client of the kubelet's Pods API. It keeps the last status of each pod, which has what only the
// kubelet knows: results of probes, reasons of waiting containers, deadlines and evictions.
//
// The server has no order: the initial events, the later events, and the answers to ListPods and GetPod overtake each
// other, events of one pod can swap, and a status has no version. So the Client trusts the time at which it asked:
//
//   - An answer is at least as new as each event that came before its request. It replaces the status, unless
//     an event came in between.
//   - An event replaces the status only if its times and counters show that it is newer. Otherwise GetPod decides.
//   - DELETED comes for a pod that is finished. It has no status, so GetPod has the final one.
//
// The kubelet drops a client that is 100 events behind, and loses events in silence if it is 1,000 behind itself. After
// a drop, the Client connects again, and gets all pods. What was lost in silence, it finds by a list in each
// interval.
//
// kubelet: pkg/kubelet/apis/pods/server.go of v1.37; KEP-4188.
package podsapi
