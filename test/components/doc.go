// Package components runs the real servers that tests are made against: an etcd and
// a kube-apiserver on loopback, with a certificate authority of their own, and two
// containerds.
//
// The servers are built from the modules that test/components/servers and
// test/components/containerd pin, once for each version, by hack/components.sh; the
// older containerd is Debian's. No image comes from a registry: a [Runtime] has one,
// which is made here, of a program that pauses, sleeps, or exits as it is told.
package components
