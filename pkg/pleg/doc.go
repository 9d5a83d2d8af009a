// Package pleg is the pod lifecycle event generator. It emits an event for each change of a container in the container
// runtime:
//
//	runtime, err := cri.New("unix:///run/containerd/containerd.sock")
//	...
//	g := pleg.New(pleg.Options{Runtime: runtime})
//	go g.Run(ctx)
//	for event := range g.Watch() {
//		fmt.Println(event.Type, event.Namespace, event.Name, event.Container)
//	}
//
// Package pleg/cri implements the runtime with CRI. Without a runtime, use [None].
//
// # Sources of changes
//
// A [Generator] lists the sandboxes and containers of the runtime every second and compares the list with its records. If
// the runtime has an event stream, the generator applies these events to the same records, and lists the runtime rarely.
// Each change of a record emits an event. So a change that a list and an event both report is emitted once. If the event
// stream misses a change, the next list finds it.
//
// # Late reports
//
// Lists and events can arrive out of order. The state of a container goes from created to running to exited to gone. So an
// event with an earlier state is old, and the generator ignores it. A list wins against everything that was recorded before
// the list was requested: a container that it does not have is gone, and one that was gone is back.
//
// # Slow runtimes
//
// Each call to the runtime has a deadline and its own goroutine. A list that hangs delays only lists. An inspection that
// hangs delays only the events of its pod. The generator never waits for the receiver of its events.
//
// The types and rules are those of the kubelet (pkg/kubelet/pleg). The kubelet does not share records between events and
// lists: see docs/explanation/kubelet-differences.md.
package pleg
