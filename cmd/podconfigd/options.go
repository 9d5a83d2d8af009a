//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

// kubeletPodsAPISocket is where the kubelet serves its Pods API.
const kubeletPodsAPISocket = "/var/lib/kubelet/pods-api/pods-api.sock"

// daemonOptions are the flags of the daemon.
type daemonOptions struct {
	daemon.Config
	files   configfile.Files
	logging *logsapi.LoggingConfiguration
	// header and mode are the flag values of StaticPodURLHeader and SocketMode.
	header map[string][]string
	mode   string
}

func newDaemonOptions() *daemonOptions {
	config := daemon.DefaultConfig()
	config.InCluster = apiserver.InCluster()
	config.NotifyServiceManager, config.SocketActivation = true, true
	return &daemonOptions{
		Config: config, logging: logsapi.NewLoggingConfiguration(),
		header: make(map[string][]string), mode: fmt.Sprintf("%04o", config.SocketMode),
	}
}

func (o *daemonOptions) addFlags(flags *pflag.FlagSet) {
	o.addFileFlags(flags)
	flags.Var(pathFlag(&o.Config), "pod-manifest-path",
		"Path to a directory of static pod manifests, or to a single manifest file. Files whose names begin with a dot are ignored. It is the source \"file\". With NAME, a DNS label, it is the source \"file:NAME\". Can be repeated with other names.")
	flags.DurationVar(&o.FileCheckFrequency, "file-check-frequency", o.FileCheckFrequency,
		"Full relist interval for --pod-manifest-path, in addition to inotify. 1ms to 24h.")
	flags.Var(urlFlag(&o.Config), "manifest-url",
		"URL of a Pod or PodList manifest. It is the source \"http\". With NAME, a DNS label, it is the source \"http:NAME\". Can be repeated with other names.")
	flags.Var(cliflag.NewColonSeparatedMultimapStringString(&o.header), "manifest-url-header",
		"Comma-separated list of HTTP headers, each `name:value`, for requests to every --manifest-url. Can be repeated.")
	flags.DurationVar(&o.HTTPCheckFrequency, "http-check-frequency", o.HTTPCheckFrequency, "Interval between requests to --manifest-url. 1ms to 24h.")
	flags.StringVar(&o.StaticPodURLCAFile, "manifest-url-ca-file", o.StaticPodURLCAFile,
		"Path to the CA certificates that verify the server of --manifest-url. If empty, uses the CA certificates of the system. Reloaded when the file changes.")
	flags.StringVar(&o.StaticPodURLCertFile, "manifest-url-cert-file", o.StaticPodURLCertFile,
		"Path to the client certificate for --manifest-url. Requires --manifest-url-key-file. Reloaded when the file changes.")
	flags.StringVar(&o.StaticPodURLKeyFile, "manifest-url-key-file", o.StaticPodURLKeyFile,
		"Path to the private key of --manifest-url-cert-file. Reloaded when the file changes.")
	flags.StringVar(&o.StaticPodURLTokenFile, "manifest-url-token-file", o.StaticPodURLTokenFile,
		"Path to a file with a bearer token for --manifest-url. Reloaded when the file changes.")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"Path to a kubeconfig. podconfigd takes the pods of this node from its apiserver. If empty and podconfigd runs in a pod with a service account, uses that service account.")
	flags.BoolVar(&o.KeepManagedFields, "keep-managed-fields", o.KeepManagedFields,
		"Keep metadata.managedFields of pods from the apiserver.")
	flags.BoolVar(&o.NamespaceMetadata, "namespace-metadata", o.NamespaceMetadata,
		"Give the namespaces in the Kubernetes API the labels and annotations that they have in the apiserver. podconfigd then watches the metadata of all namespaces. Requires --kubeconfig.")
	flags.IntVar(&o.EventRecordQPS, "event-qps", o.EventRecordQPS,
		"Maximum number of events per second that podconfigd writes to the apiserver of --kubeconfig. 0 to 1000000; 0 is no limit.")
	flags.IntVar(&o.EventBurst, "event-burst", o.EventBurst,
		"Number of events that podconfigd may write at once, beyond --event-qps. 0 to 1000000; 0 is 100.")
	flags.BoolVar(&o.CreateMirrorPods, "create-mirror-pods", o.CreateMirrorPods,
		"Create a mirror pod in the apiserver for each static pod, and keep its status up to date, as a kubelet does. For nodes without a kubelet. Requires --kubeconfig.")
	flags.StringVar(&o.NodeName, "hostname-override", o.NodeName,
		"Name of the node. If empty, uses the hostname. The names and UIDs of static pods contain it. The apiserver source selects pods with this spec.nodeName.")
	flags.StringVar(&o.NodeIP, "node-ip", o.NodeIP,
		"IP address of the node, or an IPv4 and an IPv6 address separated by a comma. It is the host IP of pods. If empty, uses the address of the interface with the default route; \"::\" prefers its IPv6 address.")
	flags.StringVar(&o.RemovalBrake, "removal-brake", o.RemovalBrake,
		"Number of pods, as in 5, or share of the pods of a source, as in 50%, that one set of the source may remove. 1 to 1000000, or 1% to 99%. A set that would remove more is held until \"podconfigd release SOURCE\", or until the source takes it back. If empty, there is no limit.")
	o.addRuntimeFlags(flags)
	o.addSocketFlags(flags)
	flags.IntVar(&o.MaxSubscribers, "max-subscribers", o.MaxSubscribers, "Maximum number of open streams. 1 to 1048576.")
	flags.IntVar(&o.MaxSubscribersPerProcess, "max-subscribers-per-process", o.MaxSubscribersPerProcess,
		"Maximum number of open streams of one client process. Processes outside the PID namespace of podconfigd are counted by user. 1 to 1048576.")
	flags.IntVar(&o.JournalMaxUpdates, "journal-max-updates", o.JournalMaxUpdates,
		"Maximum number of updates that the journal keeps for subscribers to resume from. 1 to 16777216.")
	flags.Int64Var(&o.JournalMaxBytes, "journal-max-bytes", o.JournalMaxBytes,
		"Approximate maximum memory, in bytes, of the updates that the journal keeps. 1 to 1099511627776 (1 TiB).")
	flags.StringVar(&o.StateDir, "state-dir", o.StateDir,
		"Directory for the journal. With it, subscribers resume over restarts, and podconfigd starts with the pods that it last knew. Created with mode 0700. If empty, the journal is only in memory.")
	flags.DurationVar(&o.StateMaxAge, "state-max-age", o.StateMaxAge,
		"Maximum age of the journal in --state-dir. 1m to 87600h.")
	flags.Int64Var(&o.StateMaxBytes, "state-max-bytes", o.StateMaxBytes,
		"Maximum size, in bytes, of the journal in --state-dir. Files are deleted whole, and the newest one stays. 1048576 to 1099511627776 (1 TiB).")
}

func (o *daemonOptions) addFileFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.files.Config, "config", "",
		"Path to a configuration file of kind PodConfigdConfiguration. A flag on the command line overrides the field of the file.")
	flags.StringVar(&o.files.ConfigDir, "config-dir", "",
		"Path to a directory of files that are merged over --config, in lexical order. Each has a name that ends in .conf. Subdirectories are included. Objects are merged, and lists are replaced.")
	flags.StringVar(&o.files.KubeletConfig, "kubelet-config", "",
		"Path to a KubeletConfiguration. podconfigd uses its static pod sources, its check and sync frequencies, its container runtime endpoint and its limits of events. --config overrides them.")
}

func (o *daemonOptions) addRuntimeFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.ContainerRuntimeEndpoint, "container-runtime-endpoint", o.ContainerRuntimeEndpoint,
		"CRI socket of the container runtime, for example unix:///run/containerd/containerd.sock. If empty, podconfigd connects to no runtime and the stream has no PLEG or HOUSEKEEPING updates.")
	flags.StringVar(&o.KubeletVersion, "kubelet-version", o.KubeletVersion,
		"Version of the kubelet whose rules for static pods podconfigd follows, for example 1.36: UIDs, defaults, and which manifests are accepted. auto finds it out from what runs on the node.")
	flags.StringVar(&o.KubeletPresence, "kubelet-presence", o.KubeletPresence,
		"Whether a kubelet runs on this node: auto, present or absent. HOUSEKEEPING updates do not list what a kubelet cleans up.")
	flags.BoolVar(&o.ContainerRuntimeEvents, "container-runtime-events", o.ContainerRuntimeEvents,
		"Request the events of the container runtime. If false, podconfigd lists the runtime every --pleg-relist-period, and never opens its event stream.")
	flags.DurationVar(&o.PLEGRelistPeriod, "pleg-relist-period", o.PLEGRelistPeriod,
		"Interval between lists of the container runtime. 1ms to 24h. While the runtime sends events, the interval is 5 minutes.")
	flags.DurationVar(&o.PLEGRelistThreshold, "pleg-relist-threshold", o.PLEGRelistThreshold,
		"Time without an answer from the container runtime after which /healthz and /livez fail. 1s to 48h, and at least twice --pleg-relist-period.")
	flags.BoolVar(&o.RuntimeStatus, "runtime-status", o.RuntimeStatus,
		"Give pods of the file and HTTP sources the status that a kubelet would give them, from the state of their containers in the container runtime.")
	flags.BoolVar(&o.RuntimeStatusAPIPods, "runtime-status-api-pods", o.RuntimeStatusAPIPods,
		"Also give that status to pods from the apiserver whose status no kubelet has written. For nodes without a kubelet.")
	flags.DurationVar(&o.SyncFrequency, "sync-frequency", o.SyncFrequency,
		"Minimum time between two SYNCs of a pod. 1s to 24h. Each interval is random, up to 1.5 times this value, to spread the load.")
}

func (o *daemonOptions) addSocketFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Socket, "socket", o.Socket, "Path of the unix socket to serve.")
	flags.StringVar(&o.mode, "socket-mode", o.mode, "File mode of the sockets, in octal. 0 to 0777.")
	flags.StringVar(&o.SocketGroup, "socket-group", o.SocketGroup, "Name or number, 0 to 2147483647, of the group that owns the sockets. If empty, uses the group of the podconfigd process.")
	flags.StringVar(&o.PodsAPISocket, "pods-api-socket", o.PodsAPISocket,
		"Path of a second unix socket that serves only the Pods API of the kubelet. The kubelet uses "+kubeletPodsAPISocket+". --socket-mode and --socket-group apply.")
	flags.StringArrayVar(&o.Listen, "listen", o.Listen,
		"Address to serve in addition to --socket. Can be repeated. unix:///PATH is a unix socket with --socket-mode and --socket-group. http://127.0.0.1:PORT is read-only and has no authentication; it requires a loopback address. https://ADDRESS:PORT requires authentication and authorization: see --client-ca-file, --token-auth-file, --authentication-token-webhook and --authorization-mode. The port is 0 to 65535; 0 is any free port, which is logged.")
	o.addHTTPSFlags(flags)
	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress,
		"TCP address, as host:port, that also serves /metrics, /healthz, /livez and /readyz. The port is 0 to 65535. If empty, podconfigd opens no TCP port.")
}

func (o *daemonOptions) addLogFlags(flags *pflag.FlagSet) {
	logsapi.AddFlags(o.logging, flags)
	flags.Lookup("v").Usage = "Verbosity of the log. 0 to 2147483647."
	for _, name := range []string{"log-flush-frequency", "vmodule", "log-text-split-stream", "log-text-info-buffer-size", "log-json-split-stream", "log-json-info-buffer-size"} {
		if f := flags.Lookup(name); f != nil {
			f.Hidden = true
		}
	}
}

// load reads the configuration from the files and the flags. The error has every fault. load
// can be called again to reload the files.
func (o *daemonOptions) load(flags *pflag.FlagSet) (*configfile.Configuration, error) {
	o.StaticPodURLHeader = make(http.Header)
	for name, values := range o.header {
		for _, value := range values {
			o.StaticPodURLHeader.Add(name, value)
		}
	}
	for i := range o.HTTPSources { // the flags apply to every URL
		h := &o.HTTPSources[i]
		h.Header, h.CAFile, h.TokenFile = o.StaticPodURLHeader, o.StaticPodURLCAFile, o.StaticPodURLTokenFile
		h.CertFile, h.KeyFile = o.StaticPodURLCertFile, o.StaticPodURLKeyFile
	}
	mode, err := configfile.ParseMode(o.mode)
	if err != nil {
		err = fmt.Errorf("--socket-mode: %w", err)
	}
	o.SocketMode = mode
	loaded, loadErr := configfile.Load(o.files, &configfile.Flags{Daemon: o.Config, Logging: *o.logging, Changed: flags.Changed})
	return loaded, errors.Join(loadErr, err)
}

// runDaemon runs the daemon until the context is done, and reloads its configuration.
func runDaemon(ctx context.Context, config *daemon.Config, r *reloader) error {
	d, err := daemon.New(*config)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	var reloads sync.WaitGroup
	reloads.Go(func() { r.run(running, d) })
	err = d.Run(running)
	stop()
	reloads.Wait()
	if ctx.Err() == nil {
		return err
	}
	return nil // the context ended, which is a normal stop
}
func (o *daemonOptions) addHTTPSFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile,
		"Path to the certificate of https addresses, followed by its intermediate certificates. Requires --tls-private-key-file. If empty, podconfigd makes a self-signed certificate at each start. Reloaded when the file changes.")
	flags.StringVar(&o.TLSPrivateKeyFile, "tls-private-key-file", o.TLSPrivateKeyFile,
		"Path to the private key of --tls-cert-file. Reloaded when the file changes.")
	flags.StringVar(&o.Authentication.ClientCAFile, "client-ca-file", o.Authentication.ClientCAFile,
		"Path to CA certificates. On https addresses, a client certificate of one of them authenticates its common name as the user and its organizations as the groups. Reloaded when the file changes.")
	flags.StringVar(&o.Authentication.TokenAuthFile, "token-auth-file", o.Authentication.TokenAuthFile,
		"Path to a CSV file of bearer tokens for https addresses, each line `token,user,uid[,\"group1,group2\"]`. Reloaded when the file changes.")
	flags.BoolVar(&o.Authentication.Webhook, "authentication-token-webhook", o.Authentication.Webhook,
		"Ask the apiserver of --kubeconfig about bearer tokens of clients of https addresses (TokenReview). Without --client-ca-file, --token-auth-file and --anonymous-auth, it is asked in any case.")
	flags.DurationVar(&o.Authentication.WebhookCacheTTL, "authentication-token-webhook-cache-ttl", o.Authentication.WebhookCacheTTL,
		"Time for which an answer to a TokenReview is valid. 0s to 24h; 0s is the default.")
	flags.BoolVar(&o.Authentication.Anonymous, "anonymous-auth", o.Authentication.Anonymous,
		"On https addresses, let requests without credentials pass as the user system:anonymous in the group system:unauthenticated.")
	flags.StringVar(&o.Authorization.Mode, "authorization-mode", o.Authorization.Mode,
		"How requests to https addresses are authorized: Webhook asks the apiserver of --kubeconfig (SubjectAccessReview), AlwaysAllow allows everything to users that are authenticated. If empty, uses Webhook.")
	flags.DurationVar(&o.Authorization.CacheAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", o.Authorization.CacheAuthorizedTTL,
		"Time for which the answer to a SubjectAccessReview is valid if it allows the request. 0s to 24h; 0s is the default.")
	flags.DurationVar(&o.Authorization.CacheUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", o.Authorization.CacheUnauthorizedTTL,
		"Time for which the answer to a SubjectAccessReview is valid if it denies the request. 0s to 24h; 0s is the default.")
}
