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

	// staticPodPath is the path to a directory of static pod manifests, or to one manifest file.
	// Files whose names begin with a dot are ignored. It is the source "file". If empty, there is
	// none.
	// +help=With NAME, a DNS label, it is the source "file:NAME". Can be repeated with other names.
	// +section=Source
	// +flag=pod-manifest-path
	// +reload=sources
	// +path
	StaticPodPath string `json:"staticPodPath,omitempty"`
	// fileSources are further directories or files of static pod manifests. Each is a source of
	// its own, "file:NAME".
	// +flag=pod-manifest-path
	// +reload=sources
	FileSources []FileSource `json:"fileSources,omitempty"`
	// fileCheckFrequency is the full relist interval of staticPodPath and fileSources, in
	// addition to inotify.
	// +flag=file-check-frequency
	// +defaultValue=20s
	// +minimum=1ms
	// +maximum=24h
	// +reload=sources
	FileCheckFrequency *metav1.Duration `json:"fileCheckFrequency,omitempty"`
	// ignoreManifests are patterns of file names, for example "*.bak", "*~" or "#*#". Files of
	// staticPodPath and fileSources with such a name are not read. An item can have several
	// patterns, with commas in between. The kubelet has no such option: beside a kubelet, it reads
	// these files.
	// +help=In a `PATTERN`, * is any text, ? is one character, and [a-z] is one of these. Can be repeated.
	// +flag=ignore-manifests
	// +reload=sources
	IgnoreManifests []string `json:"ignoreManifests,omitempty"`

	// staticPodURL is the URL of a Pod or PodList manifest. It is the source "http". If empty,
	// there is none.
	// +help=With NAME, a DNS label, it is the source "http:NAME". Can be repeated with other names.
	// +flag=manifest-url
	// +reload=sources
	StaticPodURL string `json:"staticPodURL,omitempty"`
	// staticPodURLHeader has the HTTP headers for requests to staticPodURL, each with its values.
	// +help=A comma-separated list of `name:value`. Can be repeated. It is for every --manifest-url.
	// +flag=manifest-url-header
	// +reload=sources
	StaticPodURLHeader map[string][]string `json:"staticPodURLHeader,omitempty"`
	// staticPodURLCAFile is the path to the CA certificates that verify the server of
	// staticPodURL. If empty, the CA certificates of the system do. Reloaded when the file changes.
	// +flag=manifest-url-ca-file
	// +reload=sources
	// +path
	StaticPodURLCAFile string `json:"staticPodURLCAFile,omitempty"`
	// staticPodURLCertFile is the path to the client certificate for staticPodURL. Requires
	// staticPodURLKeyFile. Reloaded when the file changes.
	// +flag=manifest-url-cert-file
	// +reload=sources
	// +path
	StaticPodURLCertFile string `json:"staticPodURLCertFile,omitempty"`
	// staticPodURLKeyFile is the path to the private key of staticPodURLCertFile. Reloaded when
	// the file changes.
	// +flag=manifest-url-key-file
	// +reload=sources
	// +path
	StaticPodURLKeyFile string `json:"staticPodURLKeyFile,omitempty"`
	// staticPodURLTokenFile is the path to a file with a bearer token for staticPodURL. Reloaded
	// when the file changes.
	// +flag=manifest-url-token-file
	// +reload=sources
	// +path
	StaticPodURLTokenFile string `json:"staticPodURLTokenFile,omitempty"`
	// httpSources are further URLs of manifests. Each is a source of its own, "http:NAME".
	// +flag=manifest-url
	// +reload=sources
	HTTPSources []HTTPSource `json:"httpSources,omitempty"`
	// httpCheckFrequency is the interval between requests to staticPodURL and httpSources.
	// +flag=http-check-frequency
	// +defaultValue=20s
	// +minimum=1ms
	// +maximum=24h
	// +reload=sources
	HTTPCheckFrequency *metav1.Duration `json:"httpCheckFrequency,omitempty"`

	// kubeconfig is the path to a kubeconfig. podconfigd takes the pods of this node from its
	// apiserver. If empty and podconfigd runs in a pod with a service account, uses that service
	// account.
	// +section=Apiserver
	// +flag=kubeconfig
	// +path
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// keepManagedFields keeps metadata.managedFields of pods from the apiserver.
	// +flag=keep-managed-fields
	// +reload=sources
	KeepManagedFields bool `json:"keepManagedFields,omitempty"`
	// namespaceMetadata gives the namespaces in the Kubernetes API the labels and annotations
	// that they have in the apiserver. podconfigd then watches the metadata of all namespaces.
	// Requires kubeconfig.
	// +flag=namespace-metadata
	NamespaceMetadata bool `json:"namespaceMetadata,omitempty"`
	// eventRecordQPS is the maximum number of events per second that podconfigd writes to the
	// apiserver of kubeconfig. 0 is no limit.
	// +minimum=0
	// +maximum=1000000
	// +flag=event-qps
	// +defaultValue=50
	// +reload=events
	EventRecordQPS *int32 `json:"eventRecordQPS,omitempty"`
	// eventBurst is the number of events that podconfigd may write at once, beyond eventRecordQPS.
	// 0 is 100.
	// +minimum=0
	// +maximum=1000000
	// +flag=event-burst
	// +defaultValue=100
	// +reload=events
	EventBurst *int32 `json:"eventBurst,omitempty"`
	// createMirrorPods creates a mirror pod in the apiserver for each static pod, and keeps its
	// status up to date, as a kubelet does. For nodes without a kubelet. Requires kubeconfig.
	// +flag=create-mirror-pods
	CreateMirrorPods bool `json:"createMirrorPods,omitempty"`
	// owners finds the owners of pods from the apiserver, such as their Deployment, and shows them in
	// lookups. podconfigd then reads the metadata of each controller, again every 30 to 45 minutes,
	// and watches nothing. Requires kubeconfig.
	// +flag=owners
	Owners bool `json:"owners,omitempty"`

	// hostnameOverride is the name of the node. If empty, uses the hostname. The names and UIDs
	// of static pods contain it. The apiserver source selects pods with this spec.nodeName.
	// +section=Node
	// +flag=hostname-override
	HostnameOverride string `json:"hostnameOverride,omitempty"`
	// nodeIP is the IP address of the node, or an IPv4 and an IPv6 address separated by a comma.
	// It is the host IP of pods. If empty, uses the address of the machine to which the name of the node
	// resolves, or else that of the interface with the default route; "::" prefers an IPv6 address.
	// +flag=node-ip
	NodeIP string `json:"nodeIP,omitempty"`
	// removalBrake is the number of pods, as in 5, or the share of the pods of a source, as in
	// 50%, that one set of the source may remove. 1 to 1000000, or 1% to 99%. A set that would
	// remove more is held until "podconfigctl release SOURCE", or until the source takes it back.
	// If empty, there is no limit.
	// +minimum=1
	// +maximum=1000000
	// +pattern=^(0*([1-9][0-9]{0,5}|1000000|[1-9][0-9]?%))?$
	// +section=Source
	// +flag=removal-brake
	// +reload=brake
	RemovalBrake *intstr.IntOrString `json:"removalBrake,omitempty"`

	// kubeletVersion is the version of the kubelet whose rules for static pods podconfigd follows,
	// for example 1.36: UIDs, defaults, and which manifests are accepted. auto finds it out from
	// what runs on the node.
	// +section=Node
	// +flag=kubelet-version
	// +defaultValue=auto
	KubeletVersion *string `json:"kubeletVersion,omitempty"`
	// kubeletPresence says whether a kubelet runs on this node. HOUSEKEEPING updates do not list
	// what a kubelet cleans up.
	// +enum=auto,present,absent
	// +flag=kubelet-presence
	// +defaultValue=auto
	KubeletPresence *string `json:"kubeletPresence,omitempty"`
	// kubeletPodsAPI is the path of the socket of the kubelet's Pods API, which kubelet 1.37 has by default. podconfigd takes
	// the status of pods from it. auto is /var/lib/kubelet/pods-api/pods-api.sock, if a kubelet serves it; none is no status
	// from the kubelet.
	// +flag=kubelet-pods-api
	// +defaultValue=auto
	// +reload=podsAPI
	KubeletPodsAPI *string `json:"kubeletPodsAPI,omitempty"`
	// kubeletPodsAPICheckFrequency is the interval between lists of all pods of the kubelet's Pods API, in addition to its
	// events. It is the longest time for which a status is out of date if the kubelet loses events.
	// +flag=kubelet-pods-api-check-frequency
	// +defaultValue=30s
	// +minimum=1s
	// +maximum=24h
	// +reload=podsAPI
	KubeletPodsAPICheckFrequency *metav1.Duration `json:"kubeletPodsAPICheckFrequency,omitempty"`
	// podResourcesSocket is the path of the socket of the kubelet's PodResources API, which says which devices, CPUs and memory
	// each container has. auto is that of a kubelet with the default root directory, if it is there; none is no devices.
	// +flag=pod-resources-socket
	// +defaultValue=auto
	PodResourcesSocket *string `json:"podResourcesSocket,omitempty"`
	// containerRuntimeEndpoint is the CRI socket of the container runtime, for example
	// unix:///run/containerd/containerd.sock. If empty, podconfigd connects to no runtime and the
	// stream has no PLEG or HOUSEKEEPING updates.
	// +section=Container runtime
	// +flag=container-runtime-endpoint
	ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint,omitempty"`
	// containerRuntimeEvents requests the events of the container runtime, which announce changes
	// before a list shows them. If false, podconfigd never opens the event stream. That of containerd
	// before 2.0 is never opened, because each event goes to only one client.
	// +flag=container-runtime-events
	// +defaultValue=true
	ContainerRuntimeEvents *bool `json:"containerRuntimeEvents,omitempty"`
	// plegRelistPeriod is the interval between lists of the container runtime. They show every change,
	// also if the runtime sends no events, or loses some.
	// +flag=pleg-relist-period
	// +defaultValue=1s
	// +minimum=1ms
	// +maximum=24h
	// +reload=pleg
	PLEGRelistPeriod *metav1.Duration `json:"plegRelistPeriod,omitempty"`
	// plegRelistThreshold is the time without an answer from the container runtime after which
	// the status and podconfigd_pleg_healthy report it. /livez and /readyz do not depend on the
	// runtime. It is at least twice plegRelistPeriod. Each call to the runtime may take a sixth of it,
	// at most 30s.
	// +flag=pleg-relist-threshold
	// +defaultValue=3m
	// +minimum=1s
	// +maximum=48h
	// +reload=pleg
	PLEGRelistThreshold *metav1.Duration `json:"plegRelistThreshold,omitempty"`
	// runtimeStatus gives pods of the file and HTTP sources the status that a kubelet would give
	// them, from the state of their containers in the container runtime.
	// +flag=runtime-status
	// +defaultValue=true
	RuntimeStatus *bool `json:"runtimeStatus,omitempty"`
	// runtimeStatusAPIPods gives such a status to pods from the apiserver too, if no kubelet has
	// written theirs. For nodes without a kubelet.
	// +flag=runtime-status-api-pods
	RuntimeStatusAPIPods bool `json:"runtimeStatusAPIPods,omitempty"`
	// syncFrequency is the minimum time between two SYNCs of a pod. Each interval is random, up to
	// 1.5 times this value, to spread the load.
	// +flag=sync-frequency
	// +defaultValue=1m
	// +minimum=1s
	// +maximum=24h
	// +reload=loop
	SyncFrequency *metav1.Duration `json:"syncFrequency,omitempty"`

	// socket is the path of the unix socket to serve. The default for other users than root is
	// $XDG_RUNTIME_DIR/podconfigd/podconfigd.sock.
	// +section=Socket
	// +flag=socket
	// +path
	Socket *string `json:"socket,omitempty"`
	// socketMode is the file mode of the sockets, in octal: 0 to 0777. In a file, it is in quotes.
	// +pattern=^0*[0-7]{1,3}$
	// +flag=socket-mode
	// +defaultValue=0660
	SocketMode *string `json:"socketMode,omitempty"`
	// socketGroup is the name or number, 0 to 2147483647, of the group that owns the sockets. If
	// empty, uses the group of the podconfigd process.
	// +flag=socket-group
	SocketGroup string `json:"socketGroup,omitempty"`
	// podsAPISocket is the path of a second unix socket that serves only the Pods API of the
	// kubelet. The kubelet uses /var/lib/kubelet/pods-api/pods-api.sock. socketMode and socketGroup
	// apply.
	// +flag=pods-api-socket
	// +path
	PodsAPISocket string `json:"podsAPISocket,omitempty"`
	// metricsBindAddress is the TCP address, as host:port, that also serves /metrics, /healthz,
	// /livez and /readyz. The port is 0 to 65535. If empty, podconfigd opens no TCP port for them.
	// +flag=metrics-bind-address
	MetricsBindAddress string `json:"metricsBindAddress,omitempty"`
	// listen are further addresses to serve. unix:///PATH is a unix socket with socketMode and
	// socketGroup. http://127.0.0.1:PORT is read-only and has no authentication; it requires a
	// loopback address. https://ADDRESS:PORT requires authentication and authorization. The port is
	// 0 to 65535; 0 is any free port, which is logged.
	// +help=Can be repeated.
	// +flag=listen
	Listen []string `json:"listen,omitempty"`

	// tlsCertFile is the path to the certificate of https addresses, followed by its intermediate
	// certificates. Requires tlsPrivateKeyFile. If empty, podconfigd makes a self-signed certificate
	// at each start. Reloaded when the file changes.
	// +section=HTTPS
	// +flag=tls-cert-file
	// +path
	TLSCertFile string `json:"tlsCertFile,omitempty"`
	// tlsPrivateKeyFile is the path to the private key of tlsCertFile. Reloaded when the file
	// changes.
	// +flag=tls-private-key-file
	// +path
	TLSPrivateKeyFile string `json:"tlsPrivateKeyFile,omitempty"`
	// authentication is how clients of https addresses prove who they are.
	Authentication Authentication `json:"authentication,omitzero"`
	// authorization is what clients of https addresses may do.
	Authorization Authorization `json:"authorization,omitzero"`
	// access are the rules for what clients see. For each pod, the first rule whose subject and
	// selectors both match counts. With rules, a client that none matches sees nothing. Without
	// rules, all who can connect see everything.
	// +notNull
	// +reload=access
	Access []AccessRule `json:"access,omitempty"`

	// maxSubscribers is the maximum number of open streams.
	// +minimum=1
	// +maximum=1048576
	// +section=Limit
	// +flag=max-subscribers
	// +defaultValue=1024
	// +reload=limits
	MaxSubscribers *int32 `json:"maxSubscribers,omitempty"`
	// maxSubscribersPerProcess is the maximum number of open streams of one client process.
	// Processes outside the PID namespace of podconfigd are counted by user.
	// +minimum=1
	// +maximum=1048576
	// +flag=max-subscribers-per-process
	// +defaultValue=256
	// +reload=limits
	MaxSubscribersPerProcess *int32 `json:"maxSubscribersPerProcess,omitempty"`

	// journalMaxUpdates is the maximum number of updates that the journal keeps for subscribers
	// to resume from.
	// +minimum=1
	// +maximum=16777216
	// +flag=journal-max-updates
	// +defaultValue=8192
	// +reload=journal
	JournalMaxUpdates *int32 `json:"journalMaxUpdates,omitempty"`
	// journalMaxBytes is the approximate maximum memory, in bytes, of the updates that the journal
	// keeps.
	// +minimum=1
	// +maximum=1099511627776
	// +flag=journal-max-bytes
	// +defaultValue=16777216
	// +reload=journal
	JournalMaxBytes *int64 `json:"journalMaxBytes,omitempty"`
	// endedPodsRetention is how long lookups know pods and containers that ended. With stateDir, also
	// after a restart.
	// +flag=ended-pods-retention
	// +defaultValue=1h
	// +minimum=1s
	// +maximum=168h
	EndedPodsRetention *metav1.Duration `json:"endedPodsRetention,omitempty"`
	// endedPodsMax is the maximum number of pods that ended and that lookups know, about 1 kB each. Of the
	// containers that the container runtime removed, a quarter as many are known besides those in the
	// last status of a pod.
	// +flag=ended-pods-max
	// +defaultValue=10000
	// +minimum=1
	// +maximum=1048576
	EndedPodsMax *int32 `json:"endedPodsMax,omitempty"`
	// stateDir is the directory for the journal. With it, subscribers resume across restarts, and
	// podconfigd starts with the pods that it last knew. Created with mode 0700. If empty, the
	// journal is only in memory.
	// +section=State
	// +flag=state-dir
	// +path
	StateDir string `json:"stateDir,omitempty"`
	// stateMaxAge is the maximum age of the journal in stateDir.
	// +flag=state-max-age
	// +defaultValue=168h
	// +minimum=1m
	// +maximum=87600h
	// +reload=state
	StateMaxAge *metav1.Duration `json:"stateMaxAge,omitempty"`
	// stateMaxBytes is the maximum size, in bytes, of the journal in stateDir. Files are deleted
	// whole, and the newest one stays.
	// +minimum=1048576
	// +maximum=1099511627776
	// +flag=state-max-bytes
	// +defaultValue=67108864
	// +reload=state
	StateMaxBytes *int64 `json:"stateMaxBytes,omitempty"`

	// logging is the configuration of the log. It has the fields of KubeletConfiguration.
	// +section=Log
	Logging logsapi.LoggingConfiguration `json:"logging,omitzero"`
}

// FileSource is a named source of static pod manifests.
type FileSource struct {
	// name is the name of the source, which is "file:NAME".
	Name string `json:"name"`
	// path is a directory of static pod manifests, or one manifest file.
	// +path
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
	// +path
	CAFile string `json:"caFile,omitempty"`
	// certFile is the path to the client certificate. Requires keyFile.
	// +path
	CertFile string `json:"certFile,omitempty"`
	// keyFile is the path to the private key of certFile.
	// +path
	KeyFile string `json:"keyFile,omitempty"`
	// tokenFile is the path to a file with a bearer token.
	// +path
	TokenFile string `json:"tokenFile,omitempty"`
}
