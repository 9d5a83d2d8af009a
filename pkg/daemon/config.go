package daemon

import (
	"maps"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

// Config is the configuration of a daemon. It has the fields of the configuration file, and fields that only a program
// can set. Set at least one source. Fields that are left out have their defaults, which are in v1alpha1.Options.
type Config struct {
	v1alpha1.PodConfigdConfiguration

	// InCluster uses the apiserver and the service account of the pod that the process runs
	// in, if Kubeconfig is empty. The command sets it if it runs in such a pod.
	InCluster bool
	// NotifyServiceManager reports the state of the daemon to the service manager that started
	// the process, if the environment has NOTIFY_SOCKET: READY=1 when the sockets are served,
	// STATUS=, STOPPING=1, and WATCHDOG=1 while the sync loop works. The command sets it.
	NotifyServiceManager bool
	// SocketActivation serves the listening sockets that the service manager passed to the
	// process (LISTEN_FDS), instead of opening sockets with the same addresses. The configuration must have the
	// address of each of them. Run takes them out of the environment. The command sets it.
	SocketActivation bool
	// Collectors are further metrics of the program. /metrics serves them too.
	Collectors []prometheus.Collector

	// waiting says what a daemon waits for that reads no source; empty for all others: AwaitName.
	waiting string
}

// setDefaults sets the fields that are left out.
func (c *Config) setDefaults() {
	v1alpha1.SetDefaults_PodConfigdConfiguration(&c.PodConfigdConfiguration)
}

// apiserver reports whether the apiserver is a source.
func (c *Config) apiserver() bool { return c.Kubeconfig != "" || c.InCluster }

// toHeader returns headers with canonical names. Without headers, it returns nil, so that nil and an empty map compare
// as equal. If names differ only in case, their values are in the order of the names: the same file always gives
// the same headers.
func toHeader(in map[string][]string) http.Header {
	if len(in) == 0 {
		return nil
	}
	out := make(http.Header, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		for _, value := range in[name] {
			out.Add(name, value)
		}
	}
	return out
}
