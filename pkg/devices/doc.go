// Package devices knows which devices, CPUs and memory the kubelet assigned to the containers of the node:
//
//	l := devices.New(devices.Options{Path: devices.Auto, Journal: j, Runtime: generator.Pods})
//	go l.Run(ctx)
//	resources := l.Table().Of(devices.PodOf(pod))
//
// The kubelet's PodResources API has lists and no watch. It is asked for a list when a pod starts or ends, and each 30 seconds. Nobody
// waits for these requests.
//
// # Whose devices
//
// A list names pods by namespace and name only, and a new pod can have the name of one that ended. So a pod gets what the list has for
// its name only if the kubelet ran it before the request, and it still had the name after the answer. The kubelet ran it if the
// container runtime has the pod; without a runtime, if the status of the pod has the time at which the kubelet took it.
package devices
