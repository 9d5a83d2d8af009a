// Package components runs the real servers that tests are made against: an etcd and
// a kube-apiserver on loopback, with a certificate authority of their own.
//
// The servers are built from the modules that test/components/servers pins, once for
// each version, by hack/components.sh.
package components
