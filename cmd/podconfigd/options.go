package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
)

// kubeletPodsAPISocket is where the kubelet serves its Pods API.
const kubeletPodsAPISocket = "/var/lib/kubelet/pods-api/pods-api.sock"

// daemonOptions are the flags of the daemon.
type daemonOptions struct {
	daemon.Config
	// header and mode are Config's as the flags have them.
	header map[string][]string
	mode   string
}

func newDaemonOptions() *daemonOptions {
	config := daemon.DefaultConfig()
	config.InCluster = apiserver.InCluster()
	return &daemonOptions{Config: config, header: make(map[string][]string), mode: fmt.Sprintf("%04o", config.SocketMode)}
}

func (o *daemonOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.StaticPodPath, "pod-manifest-path", o.StaticPodPath,
		"directory of static pod manifests, or a single one; files whose names begin with a dot are ignored")
	flags.DurationVar(&o.FileCheckFrequency, "file-check-frequency", o.FileCheckFrequency,
		"full relist interval, in addition to inotify; 1ms to 24h")
	flags.StringVar(&o.StaticPodURL, "manifest-url", o.StaticPodURL, "URL that serves a Pod or a PodList")
	flags.Var(cliflag.NewColonSeparatedMultimapStringString(&o.header), "manifest-url-header",
		"headers for the manifest URL, as name:value with commas between; may be repeated")
	flags.DurationVar(&o.HTTPCheckFrequency, "http-check-frequency", o.HTTPCheckFrequency, "how often the manifest URL is requested; 1ms to 24h")
	flags.StringVar(&o.StaticPodURLCAFile, "manifest-url-ca-file", o.StaticPodURLCAFile,
		"certificates that the manifest URL's is checked against; the system's if empty")
	flags.StringVar(&o.StaticPodURLCertFile, "manifest-url-cert-file", o.StaticPodURLCertFile, "client certificate for the manifest URL")
	flags.StringVar(&o.StaticPodURLKeyFile, "manifest-url-key-file", o.StaticPodURLKeyFile, "key of the client certificate")
	flags.StringVar(&o.StaticPodURLTokenFile, "manifest-url-token-file", o.StaticPodURLTokenFile,
		"file with a bearer token for the manifest URL. All these files are read again when they change")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"kubeconfig of the apiserver whose pods for this node are wanted; in a pod with a service account, that one's if empty")
	flags.BoolVar(&o.KeepManagedFields, "keep-managed-fields", o.KeepManagedFields,
		"keep metadata.managedFields of the apiserver's pods")
	flags.StringVar(&o.NodeName, "hostname-override", o.NodeName,
		"the node's name; the hostname if empty. It is part of static pods' names and UIDs, and what the apiserver's pods are bound to")
	o.addRuntimeFlags(flags)
	o.addSocketFlags(flags)
	flags.IntVar(&o.MaxSubscribers, "max-subscribers", o.MaxSubscribers, "how many streams may be open at a time, 1 to 1048576")
	flags.IntVar(&o.MaxSubscribersPerProcess, "max-subscribers-per-process", o.MaxSubscribersPerProcess, "how many of these one process may have, 1 to 1048576; processes outside of podconfigd's PID namespace count by user")
	flags.IntVar(&o.JournalMaxUpdates, "journal-max-updates", o.JournalMaxUpdates, "how many updates are kept for subscribers to resume from, 1 to 16777216")
	flags.Int64Var(&o.JournalMaxBytes, "journal-max-bytes", o.JournalMaxBytes, "about how many bytes of memory those updates may take, 1 to 1099511627776 (1 TiB)")
}

func (o *daemonOptions) addRuntimeFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.ContainerRuntimeEndpoint, "container-runtime-endpoint", o.ContainerRuntimeEndpoint,
		"CRI socket of the container runtime whose events are wanted, as in unix:///run/containerd/containerd.sock; none if empty")
	flags.DurationVar(&o.PLEGRelistPeriod, "pleg-relist-period", o.PLEGRelistPeriod,
		"how often the runtime is listed, 1ms to 24h; every 5 minutes while it sends events itself")
	flags.DurationVar(&o.PLEGRelistThreshold, "pleg-relist-threshold", o.PLEGRelistThreshold,
		"how long the runtime may give no answer before /healthz and /livez fail, 1s to 48h; at least twice --pleg-relist-period")
	flags.DurationVar(&o.SyncFrequency, "sync-frequency", o.SyncFrequency,
		"shortest time between two SYNCs of a pod, 1s to 24h; the longest is half as long again, so that not all are at once")
}

func (o *daemonOptions) addSocketFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Socket, "socket", o.Socket, "path of the unix socket to serve")
	flags.StringVar(&o.mode, "socket-mode", o.mode, "the socket file's mode, in octal")
	flags.StringVar(&o.SocketGroup, "socket-group", o.SocketGroup, "name or number of the socket file's group; the process's if empty")
	flags.StringVar(&o.PodsAPISocket, "pods-api-socket", o.PodsAPISocket,
		"path of a second socket for the kubelet's Pods API alone; the kubelet's is "+kubeletPodsAPISocket+". Mode and group are the first one's")
	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress,
		"host:port to serve /metrics and health on besides; not at all if empty")
}

// complete fills in what the flags have in another form, and returns everything that is
// wrong with the options.
func (o *daemonOptions) complete() error {
	o.StaticPodURLHeader = make(http.Header)
	for name, values := range o.header {
		for _, value := range values {
			o.StaticPodURLHeader.Add(name, value)
		}
	}
	mode, err := parseMode(o.mode)
	o.SocketMode = mode
	return errors.Join(o.Validate(), err)
}

func parseMode(s string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(s, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("--socket-mode: %q is not a file mode: want octal digits, as in 0660", s)
	}
	return fs.FileMode(mode), nil
}

// runDaemon runs the daemon until the context is done.
func runDaemon(ctx context.Context, o *daemonOptions) error {
	d, err := daemon.New(o.Config)
	if err != nil {
		return err
	}
	if err := d.Run(klog.NewContext(ctx, klog.Background())); ctx.Err() == nil {
		return err
	}
	return nil // it was told to stop
}
