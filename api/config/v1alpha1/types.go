package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PodConfigdConfiguration is the configuration of podconfigd. A field that is left out, or
// null, has its default.
type PodConfigdConfiguration struct {
	metav1.TypeMeta `json:",inline"` //nolint:revive // the tag of all Kubernetes types

	// staticPodPath is a directory of static pod manifests, or one manifest file. Files whose
	// names begin with a dot are ignored. If empty, there is no file source.
	StaticPodPath string `json:"staticPodPath,omitempty"`
	// fileSources are further directories or files of static pod manifests. Each is a source of
	// its own, "file:NAME".
	FileSources []FileSource `json:"fileSources,omitempty"`
	// fileCheckFrequency is the full relist interval of staticPodPath and fileSources, in
	// addition to inotify. 1ms to 24h.
	FileCheckFrequency *metav1.Duration `json:"fileCheckFrequency,omitempty"`

	// staticPodURL is the URL of a Pod or PodList manifest. If empty, there is no HTTP source.
	StaticPodURL string `json:"staticPodURL,omitempty"`
	// staticPodURLHeader is a map of HTTP headers, each with a list of values, for requests to
	// staticPodURL.
	StaticPodURLHeader map[string][]string `json:"staticPodURLHeader,omitempty"`
	// staticPodURLCAFile is the path to the CA certificates that verify the server of
	// staticPodURL. If empty, the CA certificates of the system do. Reloaded when the file changes.
	StaticPodURLCAFile string `json:"staticPodURLCAFile,omitempty"`
	// staticPodURLCertFile is the path to the client certificate for staticPodURL. Requires
	// staticPodURLKeyFile. Reloaded when the file changes.
	StaticPodURLCertFile string `json:"staticPodURLCertFile,omitempty"`
	// staticPodURLKeyFile is the path to the private key of staticPodURLCertFile. Reloaded when
	// the file changes.
	StaticPodURLKeyFile string `json:"staticPodURLKeyFile,omitempty"`
	// staticPodURLTokenFile is the path to a file with a bearer token for staticPodURL. Reloaded
	// when the file changes.
	StaticPodURLTokenFile string `json:"staticPodURLTokenFile,omitempty"`
	// httpSources are further URLs of manifests. Each is a source of its own, "http:NAME".
	HTTPSources []HTTPSource `json:"httpSources,omitempty"`
	// httpCheckFrequency is the interval between requests to staticPodURL, and to each of
	// httpSources. 1ms to 24h.
	HTTPCheckFrequency *metav1.Duration `json:"httpCheckFrequency,omitempty"`

	// kubeconfig is the path to a kubeconfig. podconfigd takes the pods of this node from its
	// apiserver. If empty and podconfigd runs in a pod with a service account, uses that service
	// account.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// keepManagedFields keeps metadata.managedFields of pods from the apiserver.
	KeepManagedFields bool `json:"keepManagedFields,omitempty"`
	// namespaceMetadata gives the namespaces in the Kubernetes API the labels and annotations
	// that they have in the apiserver. podconfigd then watches the metadata of all namespaces.
	// Requires kubeconfig.
	NamespaceMetadata bool `json:"namespaceMetadata,omitempty"`
	// eventRecordQPS is the maximum number of events per second that podconfigd writes to the
	// apiserver of kubeconfig. 0 to 1000000; 0 is no limit.
	// +minimum=0
	// +maximum=1000000
	EventRecordQPS *int32 `json:"eventRecordQPS,omitempty"`
	// eventBurst is the number of events that podconfigd may write at once, beyond eventRecordQPS.
	// 0 to 1000000; 0 is 100.
	// +minimum=0
	// +maximum=1000000
	EventBurst *int32 `json:"eventBurst,omitempty"`
	// createMirrorPods creates a mirror pod in the apiserver for each static pod, and keeps its
	// status up to date, as a kubelet does. For nodes without a kubelet. Requires kubeconfig.
	CreateMirrorPods bool `json:"createMirrorPods,omitempty"`

	// hostnameOverride is the name of the node. If empty, uses the hostname. The names and UIDs
	// of static pods contain it. The apiserver source selects pods with this spec.nodeName.
	HostnameOverride string `json:"hostnameOverride,omitempty"`
	// nodeIP is the IP address of the node, or an IPv4 and an IPv6 address separated by a comma.
	// It is the host IP of pods. If empty, uses the address of the interface with the default
	// route; "::" prefers its IPv6 address.
	NodeIP string `json:"nodeIP,omitempty"`
	// removalBrake is the number of pods, as in 5, or the share of the pods of a source, as in
	// 50%, that one set of the source may remove. 1 to 1000000, or 1% to 99%. A set that would
	// remove more is held until "podconfigd release SOURCE", or until the source takes it back.
	// If left out, there is no limit.
	// +minimum=1
	// +maximum=1000000
	// +pattern=^(0*([1-9][0-9]{0,5}|1000000|[1-9][0-9]?%))?$
	RemovalBrake *intstr.IntOrString `json:"removalBrake,omitempty"`

	// kubeletVersion is the version of the kubelet whose rules for static pods podconfigd follows,
	// for example 1.36: UIDs, defaults, and which manifests are accepted. auto finds it out from
	// what runs on the node.
	KubeletVersion *string `json:"kubeletVersion,omitempty"`
	// kubeletPresence says whether a kubelet runs on this node: auto, present or absent.
	// HOUSEKEEPING updates do not list what a kubelet cleans up.
	KubeletPresence *string `json:"kubeletPresence,omitempty"`
	// containerRuntimeEndpoint is the CRI socket of the container runtime, for example
	// unix:///run/containerd/containerd.sock. If empty, podconfigd connects to no runtime and the
	// stream has no PLEG or HOUSEKEEPING updates.
	ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint,omitempty"`
	// containerRuntimeEvents requests the events of the container runtime. If false, podconfigd
	// lists the runtime every plegRelistPeriod, and never opens its event stream.
	ContainerRuntimeEvents *bool `json:"containerRuntimeEvents,omitempty"`
	// plegRelistPeriod is the interval between lists of the container runtime. 1ms to 24h. While
	// the runtime sends events, the interval is 5 minutes.
	PLEGRelistPeriod *metav1.Duration `json:"plegRelistPeriod,omitempty"`
	// plegRelistThreshold is the time without an answer from the container runtime after which
	// /healthz and /livez fail. 1s to 48h, and at least twice plegRelistPeriod.
	PLEGRelistThreshold *metav1.Duration `json:"plegRelistThreshold,omitempty"`
	// runtimeStatus gives pods of the file and HTTP sources the status that a kubelet would give
	// them, from the state of their containers in the container runtime.
	RuntimeStatus *bool `json:"runtimeStatus,omitempty"`
	// runtimeStatusAPIPods also gives that status to pods from the apiserver whose status no
	// kubelet has written. For nodes without a kubelet.
	RuntimeStatusAPIPods bool `json:"runtimeStatusAPIPods,omitempty"`
	// syncFrequency is the minimum time between two SYNCs of a pod. 1s to 24h. Each interval is
	// random, up to 1.5 times this value, to spread the load.
	SyncFrequency *metav1.Duration `json:"syncFrequency,omitempty"`

	// socket is the path of the unix socket to serve. The default for other users than root is
	// $XDG_RUNTIME_DIR/podconfigd/podconfigd.sock.
	Socket *string `json:"socket,omitempty"`
	// socketMode is the file mode of the sockets, in octal and in quotes. "0" to "0777".
	// +pattern=^0*[0-7]{1,3}$
	SocketMode *string `json:"socketMode,omitempty"`
	// socketGroup is the name or number, 0 to 2147483647, of the group that owns the sockets. If
	// empty, uses the group of the podconfigd process.
	SocketGroup string `json:"socketGroup,omitempty"`
	// podsAPISocket is the path of a second unix socket that serves only the Pods API of the
	// kubelet. socketMode and socketGroup apply.
	PodsAPISocket string `json:"podsAPISocket,omitempty"`
	// metricsBindAddress is the TCP address, as host:port, that also serves /metrics, /healthz,
	// /livez and /readyz. The port is 0 to 65535. If empty, there is none.
	MetricsBindAddress string `json:"metricsBindAddress,omitempty"`
	// listen are addresses to serve beside socket: unix:///PATH, http://ADDRESS:PORT, which must
	// be a loopback address and is read-only, or https://ADDRESS:PORT.
	Listen []string `json:"listen,omitempty"`

	// tlsCertFile is the path to the certificate of https addresses. Reloaded when the file
	// changes.
	TLSCertFile string `json:"tlsCertFile,omitempty"`
	// tlsPrivateKeyFile is the path to the private key of tlsCertFile. Reloaded when the file
	// changes.
	TLSPrivateKeyFile string `json:"tlsPrivateKeyFile,omitempty"`
	// authentication is how clients of https addresses prove who they are.
	Authentication Authentication `json:"authentication,omitzero"`
	// authorization is what clients of https addresses may do.
	Authorization Authorization `json:"authorization,omitzero"`
	// access are the rules for what clients see. For each pod, the first rule whose subject and
	// selectors both match counts. With rules, a client that none matches sees nothing. Without
	// rules, all who can connect see everything.
	// +notNull
	Access []AccessRule `json:"access,omitempty"`

	// maxSubscribers is the maximum number of open streams. 1 to 1048576.
	// +minimum=1
	// +maximum=1048576
	MaxSubscribers *int32 `json:"maxSubscribers,omitempty"`
	// maxSubscribersPerProcess is the maximum number of open streams of one client process.
	// Processes outside the PID namespace of podconfigd are counted by user. 1 to 1048576.
	// +minimum=1
	// +maximum=1048576
	MaxSubscribersPerProcess *int32 `json:"maxSubscribersPerProcess,omitempty"`

	// journalMaxUpdates is the maximum number of updates that the journal keeps for subscribers
	// to resume from. 1 to 16777216.
	// +minimum=1
	// +maximum=16777216
	JournalMaxUpdates *int32 `json:"journalMaxUpdates,omitempty"`
	// journalMaxBytes is the approximate maximum memory, in bytes, of the updates that the journal
	// keeps. 1 to 1099511627776 (1 TiB).
	// +minimum=1
	// +maximum=1099511627776
	JournalMaxBytes *int64 `json:"journalMaxBytes,omitempty"`
	// stateDir is the directory for the journal. With it, subscribers resume over restarts, and
	// podconfigd starts with the pods that it last knew. Created with mode 0700. If empty, the
	// journal is only in memory.
	StateDir string `json:"stateDir,omitempty"`
	// stateMaxAge is the maximum age of the journal in stateDir. 1m to 87600h.
	StateMaxAge *metav1.Duration `json:"stateMaxAge,omitempty"`
	// stateMaxBytes is the maximum size, in bytes, of the journal in stateDir. Files are deleted
	// whole, and the newest one stays. 1048576 to 1099511627776 (1 TiB).
	// +minimum=1048576
	// +maximum=1099511627776
	StateMaxBytes *int64 `json:"stateMaxBytes,omitempty"`

	// tracing configures OpenTelemetry traces of the way of each set, from the event at the source
	// to the last subscriber. It has the fields of KubeletConfiguration.
	Tracing TracingConfiguration `json:"tracing,omitzero"`

	// logging is the configuration of the log. It has the fields of KubeletConfiguration.
	Logging logsapi.LoggingConfiguration `json:"logging,omitzero"`
}

// TracingConfiguration configures traces.
type TracingConfiguration struct {
	// endpoint is the address of a collector that receives OTLP over gRPC: HOST:PORT,
	// dns:///HOST:PORT or unix:///PATH. The connection is not encrypted. If empty, localhost:4317.
	Endpoint string `json:"endpoint,omitempty"`
	// samplingRatePerMillion is how many of a million sets are traced. 0 to 1000000; 0 is none.
	// +minimum=0
	// +maximum=1000000
	SamplingRatePerMillion int32 `json:"samplingRatePerMillion,omitempty"`
}

// FileSource is a named source of static pod manifests.
type FileSource struct {
	// name is the name of the source, which is "file:NAME".
	Name string `json:"name"`
	// path is a directory of static pod manifests, or one manifest file.
	Path string `json:"path"`
}

// HTTPSource is a named source that requests a URL.
type HTTPSource struct {
	// name is the name of the source, which is "http:NAME".
	Name string `json:"name"`
	// url is the URL of a Pod or PodList manifest.
	URL string `json:"url"`
	// header is a map of HTTP headers, each with a list of values, for requests to the URL.
	Header map[string][]string `json:"header,omitempty"`
	// caFile is the path to the CA certificates that verify the server.
	CAFile string `json:"caFile,omitempty"`
	// certFile is the path to the client certificate. Requires keyFile.
	CertFile string `json:"certFile,omitempty"`
	// keyFile is the path to the private key of certFile.
	KeyFile string `json:"keyFile,omitempty"`
	// tokenFile is the path to a file with a bearer token.
	TokenFile string `json:"tokenFile,omitempty"`
}
