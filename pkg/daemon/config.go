package daemon

import (
	"io/fs"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/socketpath"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/events"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
	sourcehttp "github.com/podconfigd/podconfigd/pkg/sources/http"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// Config is the configuration of a daemon. Start from DefaultConfig and set at least one
// source. Fields that exist in KubeletConfiguration have the same names. Each comment
// names the flag of the command podconfigd that sets the field. [Fields] has the flags and the
// paths in the configuration file. Errors name the flag.
type Config struct {
	// NodeName is the name of the node; the hostname if empty. The names and UIDs of static
	// pods contain it. The apiserver source selects the pods with this spec.nodeName.
	// Flag: --hostname-override.
	NodeName string
	// NodeIP is the address of the node, which is the host IP of pods: one address, or an IPv4
	// and an IPv6 address separated by a comma. If empty, the address of the interface with
	// the default route; "::" prefers IPv6. Flag: --node-ip.
	NodeIP string

	// StaticPodPath is a directory of static pod manifests, or one manifest file; empty
	// for no file source. Flag: --pod-manifest-path.
	StaticPodPath string
	// FileCheckFrequency is the full relist interval of StaticPodPath, in addition to
	// inotify. Flag: --file-check-frequency.
	FileCheckFrequency time.Duration

	// StaticPodURL serves a Pod or a PodList; empty for no HTTP source. Flag:
	// --manifest-url.
	StaticPodURL string
	// StaticPodURLHeader is sent with each request to StaticPodURL. Flag:
	// --manifest-url-header.
	StaticPodURLHeader http.Header
	// HTTPCheckFrequency is the interval between requests to StaticPodURL. Flag:
	// --http-check-frequency.
	HTTPCheckFrequency time.Duration
	// StaticPodURLCAFile has the CA certificates that verify the server of StaticPodURL; the
	// CA certificates of the system if empty. Flag: --manifest-url-ca-file.
	StaticPodURLCAFile string
	// StaticPodURLCertFile and StaticPodURLKeyFile have the client certificate for
	// StaticPodURL and its private key. Flags: --manifest-url-cert-file,
	// --manifest-url-key-file.
	StaticPodURLCertFile, StaticPodURLKeyFile string
	// StaticPodURLTokenFile has a bearer token for StaticPodURL. Flag:
	// --manifest-url-token-file.
	StaticPodURLTokenFile string

	// FileSources and HTTPSources are sources beside StaticPodPath and StaticPodURL. Each has a
	// name, so that the source is "file:NAME" or "http:NAME". Their periods are
	// FileCheckFrequency and HTTPCheckFrequency. The name is a DNS label. Flags: --pod-manifest-path=NAME=PATH,
	// --manifest-url=NAME=URL.
	FileSources []FileSource
	HTTPSources []HTTPSource

	// Kubeconfig is the path of a kubeconfig for the apiserver source. If empty, there is no
	// apiserver source unless InCluster is set. Flag: --kubeconfig.
	Kubeconfig string
	// InCluster uses the apiserver and the service account of the pod that the process runs
	// in, if Kubeconfig is empty. The command sets it if it runs in such a pod.
	InCluster bool
	// KeepManagedFields keeps metadata.managedFields of pods from the apiserver. Flag:
	// --keep-managed-fields.
	KeepManagedFields bool
	// NamespaceMetadata gives namespaces in the Kubernetes API the labels and annotations that
	// they have in the apiserver, with one watch of the metadata of all namespaces. Flag:
	// --namespace-metadata.
	NamespaceMetadata bool
	// EventRecordQPS and EventBurst limit the rate at which events are written to the apiserver, in
	// events per second, and their number at once. For 0, there is no limit of the rate, and 100 at
	// once, as in the kubelet. Without an apiserver, there are no events. Flags: --event-qps, --event-burst.
	EventRecordQPS, EventBurst int
	// CreateMirrorPods creates a mirror pod in the apiserver for each static pod, and keeps its
	// status up to date. It is for nodes without a kubelet. Flag: --create-mirror-pods.
	CreateMirrorPods bool

	// ContainerRuntimeEndpoint is the CRI socket of the container runtime, for example
	// unix:///run/containerd/containerd.sock; empty for no runtime. Flag:
	// --container-runtime-endpoint.
	ContainerRuntimeEndpoint string
	// KubeletVersion is the version of the kubelet whose rules for static pods are followed, such as
	// 1.36 or v1.36.3; "auto" to find it out. Flag: --kubelet-version.
	KubeletVersion string
	// KubeletPresence says whether a kubelet runs on the node: "present", "absent", or "auto" to find
	// it out. Flag: --kubelet-presence.
	KubeletPresence string
	// ContainerRuntimeEvents requests the events of the runtime. Without them, the runtime is
	// listed every PLEGRelistPeriod. Flag: --container-runtime-events.
	ContainerRuntimeEvents bool
	// PLEGRelistPeriod is the interval between lists of the runtime while the runtime sends
	// no events. Flag: --pleg-relist-period.
	PLEGRelistPeriod time.Duration
	// PLEGRelistThreshold is the time without an answer from the runtime after which the
	// daemon is not live; at least twice PLEGRelistPeriod. Flag: --pleg-relist-threshold.
	PLEGRelistThreshold time.Duration
	// RuntimeStatus gives pods of the file and HTTP source the status that a kubelet would
	// give them, from the state of their containers in the runtime. Flag: --runtime-status.
	RuntimeStatus bool
	// RuntimeStatusAPIPods does the same for pods of the apiserver source whose status no
	// kubelet has written. Flag: --runtime-status-api-pods.
	RuntimeStatusAPIPods bool
	// SyncFrequency is the minimum time between two SYNCs of a pod. Each interval is random,
	// up to 1.5 times this value. Flag: --sync-frequency.
	SyncFrequency time.Duration

	// Socket is the path of the unix socket to serve. Flag: --socket.
	Socket string
	// SocketMode is the mode of the socket file. Flag: --socket-mode.
	SocketMode fs.FileMode
	// SocketGroup is the name or number of the group that owns the socket file; the group of
	// the process if empty. Flag: --socket-group.
	SocketGroup string
	// PodsAPISocket is the path of a second socket that serves only the Pods API of the
	// kubelet; empty for none. SocketMode and SocketGroup apply to it too. Flag:
	// --pods-api-socket.
	PodsAPISocket string
	// MetricsBindAddress is the TCP address, as host:port, that also serves metrics and
	// health; empty for none. Flag: --metrics-bind-address.
	MetricsBindAddress string

	// Listen are addresses to serve beside Socket: unix:///PATH, http://ADDRESS:PORT, which must
	// be a loopback address and is read-only, or https://ADDRESS:PORT. Flag: --listen.
	Listen []string
	// TLSCertFile and TLSPrivateKeyFile have the certificate of https addresses. Both are
	// reloaded when they change. Flags: --tls-cert-file, --tls-private-key-file.
	TLSCertFile, TLSPrivateKeyFile string
	// Authentication and Authorization are those of https addresses.
	Authentication Authentication
	Authorization  Authorization
	// Access are the rules for what clients see, in their order. Without rules, all who can
	// connect see everything. They are set in the config file.
	Access []access.Rule

	// MaxSubscribers is the maximum number of open streams. MaxSubscribersPerProcess is the
	// maximum for one client process. Flags: --max-subscribers,
	// --max-subscribers-per-process.
	MaxSubscribers, MaxSubscribersPerProcess int

	// JournalMaxUpdates is the maximum number of updates that the journal keeps for
	// subscribers to resume from. JournalMaxBytes is the approximate maximum of their
	// memory. Flags: --journal-max-updates, --journal-max-bytes.
	JournalMaxUpdates int
	JournalMaxBytes   int64

	// StateDir is the directory in which the journal survives a restart; empty to keep it only
	// in memory. Flag: --state-dir.
	StateDir string
	// StateMaxAge and StateMaxBytes limit the journal in StateDir. Flags: --state-max-age,
	// --state-max-bytes.
	StateMaxAge   time.Duration
	StateMaxBytes int64
	// RemovalBrake is the number of pods, as in 5, or the share of the pods of a source, as in
	// 50%, that one set may remove. A set that would remove more is held until it is released,
	// or until the source takes it back. Empty for no limit. Flag: --removal-brake.
	RemovalBrake string

	// Tracing configures traces of the way of each set.
	Tracing Tracing

	// NotifyServiceManager reports the state of the daemon to the service manager that started
	// the process, if the environment has NOTIFY_SOCKET: READY=1 when the sockets are served,
	// STATUS=, STOPPING=1, and WATCHDOG=1 while the sync loop works. The command sets it.
	NotifyServiceManager bool
	// SocketActivation serves the listening sockets that the service manager passed to the
	// process (LISTEN_FDS) instead of making those with the same addresses. Each of them must be
	// in the configuration. Run takes them out of the environment. The command sets it.
	SocketActivation bool

	// Collectors are metrics of the program around the daemon, which /metrics serves too.
	Collectors []prometheus.Collector
}

// Tracing configures OpenTelemetry traces. They are exported over gRPC (OTLP), without encryption.
// The names are those of KubeletConfiguration.
type Tracing struct {
	// Endpoint is the address of the collector; tracing.DefaultEndpoint if empty.
	Endpoint string
	// SamplingRatePerMillion is how many of a million sets of sources are traced; 0 for none.
	SamplingRatePerMillion int32
}

// FileSource is a named source of static pod manifests.
type FileSource struct {
	Name string
	// Path is a directory or a file, as StaticPodPath.
	Path string
}

// HTTPSource is a named source that requests a URL.
type HTTPSource struct {
	Name string
	// URL serves a Pod or a PodList. Header is sent with each request.
	URL    string
	Header http.Header
	// The files are those of StaticPodURLCAFile and the fields that follow it.
	CAFile, CertFile, KeyFile, TokenFile string
}

// Authentication says how clients of https addresses prove who they are. The names are those
// of KubeletConfiguration.
type Authentication struct {
	// ClientCAFile has the CA certificates of client certificates: the common name is the
	// user, the organizations are the groups. Flag: --client-ca-file.
	ClientCAFile string
	// TokenAuthFile has lines "token,user,uid[,groups]". Flag: --token-auth-file.
	TokenAuthFile string
	// Webhook asks the apiserver about bearer tokens, with TokenReview. It is also asked if there
	// is an apiserver and none of the other fields is set. An answer is valid for
	// WebhookCacheTTL; 0 is the default. Flags: --authentication-token-webhook,
	// --authentication-token-webhook-cache-ttl.
	Webhook         bool
	WebhookCacheTTL time.Duration
	// Anonymous lets requests without credentials pass as system:anonymous. Flag:
	// --anonymous-auth.
	Anonymous bool
}

// Authorization says what clients of https addresses may do.
type Authorization struct {
	// Mode is Webhook, which asks the apiserver with SubjectAccessReview, or AlwaysAllow. The
	// default is Webhook. Flag: --authorization-mode.
	Mode string
	// CacheAuthorizedTTL and CacheUnauthorizedTTL are how long an answer is valid; 0 is the
	// default. Flags:
	// --authorization-webhook-cache-authorized-ttl,
	// --authorization-webhook-cache-unauthorized-ttl.
	CacheAuthorizedTTL, CacheUnauthorizedTTL time.Duration
}

// DefaultConfig returns a Config with all defaults and no source.
func DefaultConfig() Config {
	return Config{
		FileCheckFrequency:       file.DefaultPeriod,
		HTTPCheckFrequency:       sourcehttp.DefaultPeriod,
		PLEGRelistPeriod:         pleg.DefaultRelistPeriod,
		PLEGRelistThreshold:      pleg.DefaultRelistThreshold,
		ContainerRuntimeEvents:   true,
		KubeletVersion:           kubelet.Auto,
		KubeletPresence:          kubelet.Auto,
		RuntimeStatus:            true,
		SyncFrequency:            syncloop.DefaultSyncFrequency,
		EventRecordQPS:           events.DefaultQPS,
		EventBurst:               events.DefaultBurst,
		Authentication:           Authentication{WebhookCacheTTL: defaultTokenTTL},
		Authorization:            Authorization{CacheAuthorizedTTL: defaultAllowTTL, CacheUnauthorizedTTL: defaultDenyTTL},
		Socket:                   socketpath.Default(),
		SocketMode:               0o660,
		MaxSubscribers:           server.DefaultMaxSubscribers,
		MaxSubscribersPerProcess: server.DefaultMaxSubscribersPerPeer,
		JournalMaxUpdates:        journal.DefaultMaxUpdates,
		JournalMaxBytes:          journal.DefaultMaxBytes,
		StateMaxAge:              store.DefaultMaxAge,
		StateMaxBytes:            store.DefaultMaxBytes,
	}
}

// apiserver reports whether the apiserver is a source.
func (c *Config) apiserver() bool { return c.Kubeconfig != "" || c.InCluster }
