package daemon

import (
	"io/fs"
	"net/http"
	"time"

	"github.com/podconfigd/podconfigd/internal/socketpath"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
	sourcehttp "github.com/podconfigd/podconfigd/pkg/sources/http"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// Config is what a daemon is made of. Start from DefaultConfig and set at least one
// source. Fields that KubeletConfiguration has too have its names. Each comment names
// the flag of the command podconfigd that sets the field; errors name the flag.
type Config struct {
	// NodeName is the node's name; the hostname if empty. It is part of the names and UIDs
	// of static pods, and selects the apiserver's pods. Flag: --hostname-override.
	NodeName string

	// StaticPodPath is a directory of static pod manifests, or one manifest file; empty
	// for no file source. Flag: --pod-manifest-path.
	StaticPodPath string
	// FileCheckFrequency is how often StaticPodPath is listed in addition to inotify.
	// Flag: --file-check-frequency.
	FileCheckFrequency time.Duration

	// StaticPodURL serves a Pod or a PodList; empty for no HTTP source. Flag:
	// --manifest-url.
	StaticPodURL string
	// StaticPodURLHeader is sent with each request to StaticPodURL. Flag:
	// --manifest-url-header.
	StaticPodURLHeader http.Header
	// HTTPCheckFrequency is how often StaticPodURL is requested. Flag:
	// --http-check-frequency.
	HTTPCheckFrequency time.Duration
	// StaticPodURLCAFile has the certificates that StaticPodURL's is verified against; the
	// system's if empty. Flag: --manifest-url-ca-file.
	StaticPodURLCAFile string
	// StaticPodURLCertFile and StaticPodURLKeyFile are the client certificate for
	// StaticPodURL. Flags: --manifest-url-cert-file, --manifest-url-key-file.
	StaticPodURLCertFile, StaticPodURLKeyFile string
	// StaticPodURLTokenFile has a bearer token for StaticPodURL. Flag:
	// --manifest-url-token-file.
	StaticPodURLTokenFile string

	// Kubeconfig names the apiserver; empty for no apiserver source, unless InCluster is
	// set. Flag: --kubeconfig.
	Kubeconfig string
	// InCluster takes the apiserver and the service account of the pod that the process
	// runs in, if Kubeconfig is empty. The command sets it if there is such a pod.
	InCluster bool
	// KeepManagedFields keeps metadata.managedFields of the apiserver's pods. Flag:
	// --keep-managed-fields.
	KeepManagedFields bool

	// ContainerRuntimeEndpoint is the CRI socket of the container runtime whose events
	// are wanted, as in unix:///run/containerd/containerd.sock; empty for none. Flag:
	// --container-runtime-endpoint.
	ContainerRuntimeEndpoint string
	// PLEGRelistPeriod is how often the runtime is listed while it sends no events. Flag:
	// --pleg-relist-period.
	PLEGRelistPeriod time.Duration
	// PLEGRelistThreshold is how long the runtime may give no answer before the daemon is
	// not live; at least twice PLEGRelistPeriod. Flag: --pleg-relist-threshold.
	PLEGRelistThreshold time.Duration
	// SyncFrequency is the shortest time between two SYNCs of a pod; the longest is half
	// as long again. Flag: --sync-frequency.
	SyncFrequency time.Duration

	// Socket is the path of the unix socket to serve. Flag: --socket.
	Socket string
	// SocketMode is the mode of the socket file. Flag: --socket-mode.
	SocketMode fs.FileMode
	// SocketGroup is the name or number of the socket file's group; the process's if
	// empty. Flag: --socket-group.
	SocketGroup string
	// PodsAPISocket is the path of a second socket, for the kubelet's Pods API alone;
	// empty for none. It gets SocketMode and SocketGroup. Flag: --pods-api-socket.
	PodsAPISocket string
	// MetricsBindAddress is the host:port to serve metrics and health on, in addition to
	// Socket; empty for none. Flag: --metrics-bind-address.
	MetricsBindAddress string

	// MaxSubscribers is how many streams may be open at a time, and
	// MaxSubscribersPerProcess how many of these one process may have. Flags:
	// --max-subscribers, --max-subscribers-per-process.
	MaxSubscribers, MaxSubscribersPerProcess int

	// JournalMaxUpdates is how many updates are kept for subscribers to resume from, and
	// JournalMaxBytes about how many bytes of memory these may take. Flags:
	// --journal-max-updates, --journal-max-bytes.
	JournalMaxUpdates int
	JournalMaxBytes   int64
}

// DefaultConfig returns a Config with every default, and without a source.
func DefaultConfig() Config {
	return Config{
		FileCheckFrequency:       file.DefaultPeriod,
		HTTPCheckFrequency:       sourcehttp.DefaultPeriod,
		PLEGRelistPeriod:         pleg.DefaultRelistPeriod,
		PLEGRelistThreshold:      pleg.DefaultRelistThreshold,
		SyncFrequency:            syncloop.DefaultSyncFrequency,
		Socket:                   socketpath.Default(),
		SocketMode:               0o660,
		MaxSubscribers:           server.DefaultMaxSubscribers,
		MaxSubscribersPerProcess: server.DefaultMaxSubscribersPerPeer,
		JournalMaxUpdates:        journal.DefaultMaxUpdates,
		JournalMaxBytes:          journal.DefaultMaxBytes,
	}
}

// apiserver tells whether the apiserver is a source.
func (c *Config) apiserver() bool { return c.Kubeconfig != "" || c.InCluster }
