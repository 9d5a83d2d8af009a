// Package clients runs clients that other projects wrote, unmodified, against podconfigd:
// Prometheus, the OpenTelemetry Collector, Telegraf, kube-state-metrics, Kepler, SPIRE, client-go,
// controller-runtime, the Kubernetes clients for JavaScript and Python, grpcurl and kubectl.
//
// Each client runs while manifests are added, changed and removed, and while the daemon is
// killed and started again, with and without a state directory. At the end, the client has
// the same pods as /pods, with the pod IPs and container IDs of a real containerd.
//
// Two tests are of agents that ask for one pod: SPIRE, which gives workloads beside a kubelet their identities, and agents that
// read logs, for a pod that lived two seconds.
//
// The configurations are in testdata. docs/how-to/clients.md has the same text.
//
// The module is separate because podconfigd must not get its dependencies. hack/clients.sh
// installs the clients that are not Go packages of this module. With -short, only clients
// that need no installation run.
package clients
