package config

import (
	v1 "k8s.io/api/core/v1"
)

// Restore adds a source with the pods that it had before a restart. They count until the
// first set of the source, which is compared with them. The pods have the annotations of
// the merge. Restore is called before Run, once for a source.
func (c *PodConfig) Restore(source string, pods []*v1.Pod) {
	c.storage.restore(source, pods)
}

func (s *podStorage) restore(source string, set []*v1.Pod) {
	pods := newSourcePods(len(set))
	for _, pod := range set {
		entry := &podEntry{ref: pod, pod: pod, restored: true}
		pods.byUID[pod.UID] = entry
		pods.byName[nameOf(pod)] = entry
		pods.refs.put(entry, pods.generation)
	}
	pods.last = set
	s.sources[source] = pods
}

// compareRestored is checkAndUpdatePod for a pod that was read from disk. There it was
// protobuf, in which an empty list and a missing one are the same. So the new version is
// compared in that form. The pod to store has the fields of the source, so that the next
// comparison is the usual one.
func compareRestored(existing, ref *v1.Pod) (*v1.Pod, change) {
	what := updated
	if same, err := throughProtobuf(ref); err == nil {
		_, what = checkAndUpdatePod(existing, same)
	}
	return updatedPod(existing, ref), what
}

func throughProtobuf(pod *v1.Pod) (*v1.Pod, error) {
	data, err := pod.Marshal()
	if err != nil {
		return nil, err
	}
	same := new(v1.Pod)
	err = same.Unmarshal(data)
	return same, err
}
