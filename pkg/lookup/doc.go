// Package lookup answers which pod and which container an ID, an IP, a process or a cgroup
// belongs to.
//
// # Where answers come from
//
// A [Lookup] joins two sets of records: the containers of the runtime, from pkg/pleg, and the
// pods of the sources, from the journal. A pod that is in several sources is the one that the
// Kubernetes API shows. If only the mirror pod of a static pod is known, it is the pod of the
// static pod's containers. A pod that is only in the runtime has no source.
//
// A process belongs to the container that its cgroup names. See [ParseCgroup].
//
// # Waiting
//
// A query with a wait is answered as soon as the container is recorded and a source has its
// pod. The wait ends early for a pod that the runtime has had for longer than the wait: no
// source is about to deliver it. If only a part is known at the end of the wait, the answer
// has that part. Waiting uses no polling: the records wake the queries that wait for an ID.
//
// # What ended
//
// Removed containers and pods are known for a minute, and marked with the time at which they
// ended.
package lookup
