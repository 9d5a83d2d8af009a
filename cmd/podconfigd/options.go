package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	nethttp "net/http"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/sources/apiserver"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
	"github.com/podconfigd/podconfigd/pkg/sources/http"
)

// kubeletPodsAPISocket is where the kubelet serves its Pods API.
const kubeletPodsAPISocket = "/var/lib/kubelet/pods-api/pods-api.sock"

type daemonOptions struct {
	manifestPath       string
	fileCheckFrequency time.Duration
	manifestURL        string
	manifestURLHeader  map[string][]string
	httpCheckFrequency time.Duration
	manifestURLCAFile  string
	manifestURLCert    string
	manifestURLKey     string
	manifestURLToken   string
	kubeconfig         string
	keepManagedFields  bool
	hostnameOverride   string
	runtime            runtimeOptions
	socket             string
	socketMode         string
	socketGroup        string
	podsAPISocket      string
	subscribers        int
	subscribersPerPeer int
	metricsAddress     string
	maxUpdates         int
	maxBytes           int64
}

func newDaemonOptions() *daemonOptions {
	return &daemonOptions{
		fileCheckFrequency: file.DefaultPeriod,
		runtime:            newRuntimeOptions(),
		manifestURLHeader:  make(map[string][]string),
		httpCheckFrequency: http.DefaultPeriod,
		socket:             client.ServerSocket(),
		socketMode:         "0660",
		subscribers:        server.DefaultMaxSubscribers,
		subscribersPerPeer: server.DefaultMaxSubscribersPerPeer,
		maxUpdates:         journal.DefaultMaxUpdates,
		maxBytes:           journal.DefaultMaxBytes,
	}
}

func (o *daemonOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.manifestPath, "pod-manifest-path", o.manifestPath,
		"directory of static pod manifests, or a single one; files whose names begin with a dot are ignored")
	flags.DurationVar(&o.fileCheckFrequency, "file-check-frequency", o.fileCheckFrequency,
		"how often the manifest path is listed whatever inotify says")
	flags.StringVar(&o.manifestURL, "manifest-url", o.manifestURL, "URL that serves a Pod or a PodList")
	flags.Var(cliflag.NewColonSeparatedMultimapStringString(&o.manifestURLHeader), "manifest-url-header",
		"headers for the manifest URL, as name:value with commas between; may be repeated")
	flags.DurationVar(&o.httpCheckFrequency, "http-check-frequency", o.httpCheckFrequency, "how often the manifest URL is asked")
	flags.StringVar(&o.manifestURLCAFile, "manifest-url-ca-file", o.manifestURLCAFile,
		"certificates that the manifest URL's is checked against; the system's if empty")
	flags.StringVar(&o.manifestURLCert, "manifest-url-cert-file", o.manifestURLCert, "client certificate for the manifest URL")
	flags.StringVar(&o.manifestURLKey, "manifest-url-key-file", o.manifestURLKey, "key of the client certificate")
	flags.StringVar(&o.manifestURLToken, "manifest-url-token-file", o.manifestURLToken,
		"file with a bearer token for the manifest URL. All these files are read again when they change")
	flags.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig,
		"kubeconfig of the apiserver whose pods for this node are wanted; in a pod with a service account, that one's if empty")
	flags.BoolVar(&o.keepManagedFields, "keep-managed-fields", o.keepManagedFields,
		"keep metadata.managedFields of the apiserver's pods")
	flags.StringVar(&o.hostnameOverride, "hostname-override", o.hostnameOverride,
		"the node's name; the hostname if empty. It is part of static pods' names and UIDs, and what the apiserver's pods are bound to")
	o.runtime.addFlags(flags)
	flags.StringVar(&o.socket, "socket", o.socket, "path of the unix socket to serve")
	flags.StringVar(&o.socketMode, "socket-mode", o.socketMode, "the socket file's mode, in octal")
	flags.StringVar(&o.socketGroup, "socket-group", o.socketGroup, "name or number of the socket file's group; the process's if empty")
	flags.StringVar(&o.podsAPISocket, "pods-api-socket", o.podsAPISocket,
		"path of a second socket for the kubelet's Pods API alone; the kubelet's is "+kubeletPodsAPISocket+". Mode and group are the first one's")
	flags.IntVar(&o.subscribers, "max-subscribers", o.subscribers, "how many streams may be open at a time")
	flags.IntVar(&o.subscribersPerPeer, "max-subscribers-per-process", o.subscribersPerPeer, "how many of these may be one process's")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress,
		"host:port to serve /metrics and health on besides; not at all if empty")
	flags.IntVar(&o.maxUpdates, "journal-max-updates", o.maxUpdates, "how many updates are kept for subscribers to resume from")
	flags.Int64Var(&o.maxBytes, "journal-max-bytes", o.maxBytes, "about how many bytes of memory those updates may take")
}

// validate returns all that is wrong with the options at once.
func (o *daemonOptions) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.manifestPath == "" && o.manifestURL == "" && !o.apiserver() {
		fail("there is no source of pods: name a directory with --pod-manifest-path, a URL with --manifest-url, or an apiserver with --kubeconfig")
	}
	for flag, period := range map[string]time.Duration{
		"--file-check-frequency": o.fileCheckFrequency, "--http-check-frequency": o.httpCheckFrequency,
	} {
		if period < time.Millisecond {
			fail("%s: %v is too short: want 1ms or more", flag, period)
		}
	}
	if o.manifestURL == "" && (len(o.manifestURLHeader) > 0 || o.manifestURLCAFile != "" || o.manifestURLCert != "" ||
		o.manifestURLKey != "" || o.manifestURLToken != "") {
		fail("the --manifest-url-… flags mean nothing without --manifest-url")
	}
	if (o.manifestURLCert == "") != (o.manifestURLKey == "") {
		fail("--manifest-url-cert-file and --manifest-url-key-file go together")
	}
	o.validateSockets(fail)
	for _, limit := range []struct {
		flag  string
		value int64
	}{
		{"--max-subscribers", int64(o.subscribers)},
		{"--max-subscribers-per-process", int64(o.subscribersPerPeer)},
		{"--journal-max-updates", int64(o.maxUpdates)},
		{"--journal-max-bytes", o.maxBytes},
	} {
		if limit.value < 1 {
			fail("%s: %d: want 1 or more", limit.flag, limit.value)
		}
	}
	if err := o.runtime.validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// validateSockets tells fail what is wrong with where the daemon is to listen.
func (o *daemonOptions) validateSockets(fail func(format string, args ...any)) {
	switch {
	case o.socket != "":
	case client.ServerSocket() == "":
		fail("there is no place for the socket, for XDG_RUNTIME_DIR is not set: name one with --socket")
	default:
		fail("--socket: it is empty: want a path, as in %s", client.ServerSocket())
	}
	if _, err := o.mode(); err != nil {
		fail("--socket-mode: %w", err)
	}
	if o.podsAPISocket != "" && o.podsAPISocket == o.socket {
		fail("--pods-api-socket: it is the same as --socket, which speaks the Pods API anyway")
	}
	if o.metricsAddress != "" {
		if _, _, err := net.SplitHostPort(o.metricsAddress); err != nil {
			fail("--metrics-bind-address: %w", err)
		}
	}
}

// apiserver tells whether there is an apiserver to take pods from.
func (o *daemonOptions) apiserver() bool { return o.kubeconfig != "" || apiserver.InCluster() }

func (o *daemonOptions) mode() (fs.FileMode, error) {
	mode, err := strconv.ParseUint(o.socketMode, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("%q is not a file mode: want octal digits, as in 0660", o.socketMode)
	}
	return fs.FileMode(mode), nil
}

// header returns the configured headers as net/http has them.
func (o *daemonOptions) header() nethttp.Header {
	header := make(nethttp.Header)
	for name, values := range o.manifestURLHeader {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	return header
}
