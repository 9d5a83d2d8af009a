// Package lookup finds the pod and the container of a container ID, a pod UID, a pod IP, a process, a cgroup, a namespace or a log:
//
//	l := lookup.New(lookup.Options{Journal: j, Runtime: generator})
//	go l.Run(ctx)
//	answer, err := l.Find(ctx, nil, &lookup.Query{PID: 4711, Wait: time.Second})
//
// # Where answers come from
//
// A [Lookup] joins two sets of records: the containers of the runtime, from pkg/pleg, and the pods of the sources, from the
// journal. If several sources have a pod, the answer is the pod that the Kubernetes API shows. If only the mirror pod of a
// static pod is known, the containers of the static pod belong to the mirror pod. A pod that only the runtime has is
// answered without a source.
//
// A process belongs to the container that its cgroup names. See [ParseCgroup]. The namespaces and the first processes of
// containers are read from procfs, but only when a query needs them. What was read is checked before it is the answer: the kernel
// reuses PIDs and the inodes of namespaces.
//
// # Waiting
//
// A query with a wait is answered as soon as the container is recorded and a source has its pod. If only a part is known at
// the end of the wait, the answer has that part. The wait ends early if the runtime has had the pod for longer than the
// wait: then no source is about to deliver it. Waiting queries do not poll. The records wake them.
//
// # What ended
//
// Removed containers and pods are found for one minute. The answer has the time at which they ended.
package lookup
