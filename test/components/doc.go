// Package components runs real servers for tests: an etcd and a kube-apiserver on
// loopback, with their own certificate authority, two containerds, and a kubelet.
//
// hack/components.sh builds the servers from the modules of test/components/servers,
// test/components/kubelet and test/components/containerd, once for each version. The older
// containerd is Debian's. No image comes from a registry: the images of a [Runtime] are
// built here. [Image] has a program that pauses, sleeps or exits.
package components
