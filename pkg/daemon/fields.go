package daemon

import "strings"

// FieldName is the name of a field of Config. A field of a field has dots, and an item of a
// list its index: FileSources[1].Path.
type FieldName string

// Field says where a field of Config can be set.
type Field struct {
	Name FieldName
	// Flag is the flag of the command podconfigd, without dashes; empty if there is none.
	Flag string
	// Path is the path of the field in the config file.
	Path string
}

// fields are all fields of Config that users set, in the order of the config file.
var fields = []Field{
	{"StaticPodPath", "pod-manifest-path", "staticPodPath"},
	{"FileSources", "pod-manifest-path", "fileSources"},
	{"FileCheckFrequency", "file-check-frequency", "fileCheckFrequency"},
	{"StaticPodURL", "manifest-url", "staticPodURL"},
	{"StaticPodURLHeader", "manifest-url-header", "staticPodURLHeader"},
	{"StaticPodURLCAFile", "manifest-url-ca-file", "staticPodURLCAFile"},
	{"StaticPodURLCertFile", "manifest-url-cert-file", "staticPodURLCertFile"},
	{"StaticPodURLKeyFile", "manifest-url-key-file", "staticPodURLKeyFile"},
	{"StaticPodURLTokenFile", "manifest-url-token-file", "staticPodURLTokenFile"},
	{"HTTPSources", "manifest-url", "httpSources"},
	{"HTTPCheckFrequency", "http-check-frequency", "httpCheckFrequency"},
	{"Kubeconfig", "kubeconfig", "kubeconfig"},
	{"KeepManagedFields", "keep-managed-fields", "keepManagedFields"},
	{"NamespaceMetadata", "namespace-metadata", "namespaceMetadata"},
	{"EventRecordQPS", "event-qps", "eventRecordQPS"},
	{"EventBurst", "event-burst", "eventBurst"},
	{"CreateMirrorPods", "create-mirror-pods", "createMirrorPods"},
	{"NodeName", "hostname-override", "hostnameOverride"},
	{"NodeIP", "node-ip", "nodeIP"},
	{"RemovalBrake", "removal-brake", "removalBrake"},
	{"KubeletVersion", "kubelet-version", "kubeletVersion"},
	{"KubeletPresence", "kubelet-presence", "kubeletPresence"},
	{"ContainerRuntimeEndpoint", "container-runtime-endpoint", "containerRuntimeEndpoint"},
	{"ContainerRuntimeEvents", "container-runtime-events", "containerRuntimeEvents"},
	{"PLEGRelistPeriod", "pleg-relist-period", "plegRelistPeriod"},
	{"PLEGRelistThreshold", "pleg-relist-threshold", "plegRelistThreshold"},
	{"RuntimeStatus", "runtime-status", "runtimeStatus"},
	{"RuntimeStatusAPIPods", "runtime-status-api-pods", "runtimeStatusAPIPods"},
	{"SyncFrequency", "sync-frequency", "syncFrequency"},
	{"Socket", "socket", "socket"},
	{"SocketMode", "socket-mode", "socketMode"},
	{"SocketGroup", "socket-group", "socketGroup"},
	{"PodsAPISocket", "pods-api-socket", "podsAPISocket"},
	{"MetricsBindAddress", "metrics-bind-address", "metricsBindAddress"},
	{"Listen", "listen", "listen"},
	{"TLSCertFile", "tls-cert-file", "tlsCertFile"},
	{"TLSPrivateKeyFile", "tls-private-key-file", "tlsPrivateKeyFile"},
	{"Authentication.ClientCAFile", "client-ca-file", "authentication.x509.clientCAFile"},
	{"Authentication.TokenAuthFile", "token-auth-file", "authentication.tokenAuthFile"},
	{"Authentication.Webhook", "authentication-token-webhook", "authentication.webhook.enabled"},
	{"Authentication.WebhookCacheTTL", "authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL"},
	{"Authentication.Anonymous", "anonymous-auth", "authentication.anonymous.enabled"},
	{"Authorization.Mode", "authorization-mode", "authorization.mode"},
	{"Authorization.CacheAuthorizedTTL", "authorization-webhook-cache-authorized-ttl", "authorization.webhook.cacheAuthorizedTTL"},
	{"Authorization.CacheUnauthorizedTTL", "authorization-webhook-cache-unauthorized-ttl", "authorization.webhook.cacheUnauthorizedTTL"},
	{"Access", "", "access"},
	{"MaxSubscribers", "max-subscribers", "maxSubscribers"},
	{"MaxSubscribersPerProcess", "max-subscribers-per-process", "maxSubscribersPerProcess"},
	{"JournalMaxUpdates", "journal-max-updates", "journalMaxUpdates"},
	{"JournalMaxBytes", "journal-max-bytes", "journalMaxBytes"},
	{"StateDir", "state-dir", "stateDir"},
	{"StateMaxAge", "state-max-age", "stateMaxAge"},
	{"StateMaxBytes", "state-max-bytes", "stateMaxBytes"},
	{"Tracing.Endpoint", "", "tracing.endpoint"},
	{"Tracing.SamplingRatePerMillion", "", "tracing.samplingRatePerMillion"},
}

// Fields returns all fields of Config that users set, in the order of the config file.
func Fields() []Field { return append([]Field(nil), fields...) }

// Field returns the field in the list that has the name, or of which the name is a part. The
// rest is what follows in the name: [1].Path.
func (n FieldName) Field() (field Field, rest string) {
	for _, f := range fields {
		if rest, ok := strings.CutPrefix(string(n), string(f.Name)); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return f, rest
		}
	}
	return Field{Name: n}, ""
}

// String returns the flag that sets the field, or the name if there is no flag.
func (n FieldName) String() string {
	if field, _ := n.Field(); field.Flag != "" {
		return "--" + field.Flag
	}
	return string(n)
}
