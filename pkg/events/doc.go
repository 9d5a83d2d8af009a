// Package events writes Kubernetes Events about manifests that are Rejected, Held or Shadowed, sources that are
// degraded, and sets that the removal brake holds:
//
//	r := events.New(events.Options{Node: "node1", Client: apiserver, Sources: status, MirrorPods: mirrors})
//	err := r.Run(ctx)
//
// Each event is on the Node. An event about a manifest is also on the mirror pod of the same name, if there is one.
//
// # What is written
//
// The [Writer] reads the status every second. Each fault in it is a condition. The Writer writes one event when a
// condition begins or changes, and one when it ends. If it can't write now, because of a limit, missing permissions or an
// apiserver that does not answer, it writes later what is still true then. There is no queue, and nothing that the status
// has is lost. A condition that ends before it was written has no event.
//
// client-go's [k8s.io/client-go/tools/record.EventCorrelator] counts equal events in one object, and aggregates events
// about one manifest that differ only in their message. client-go's EventRecorder is not used, because it loses events:
// those that the apiserver rejects, those after the first 25 of an object, and all of them after 12 attempts. Its
// goroutines also can't be waited for.
//
// # Limits
//
// Options.QPS and Options.Burst limit all requests. Events about manifests have a second limit, and events about one
// condition a third one. So manifests that change all the time do not fill the apiserver.
package events
