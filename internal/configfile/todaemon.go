package configfile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// newScheme returns a scheme with the type of the file, its defaults and its conversions.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	//nolint:errcheck // the scheme checks the types
	return scheme, errors.Join(
		scheme.AddConversionFunc((*v1alpha1.PodConfigdConfiguration)(nil), (*daemon.Config)(nil), func(a, b any, _ conversion.Scope) error {
			return toDaemon(a.(*v1alpha1.PodConfigdConfiguration), b.(*daemon.Config)).ToAggregate()
		}),
		scheme.AddConversionFunc((*daemon.Config)(nil), (*v1alpha1.PodConfigdConfiguration)(nil), func(a, b any, _ conversion.Scope) error {
			toVersioned(a.(*daemon.Config), b.(*v1alpha1.PodConfigdConfiguration))
			return nil
		}),
	)
}

// toDaemon converts all fields, after their defaults were set. A value that can't be
// converted is left out, and gives an error.
func toDaemon(in *v1alpha1.PodConfigdConfiguration, out *daemon.Config) (errs field.ErrorList) {
	errs = required(in)
	out.StaticPodPath, out.FileCheckFrequency = in.StaticPodPath, in.FileCheckFrequency.Duration
	out.FileSources = convertAll(in.FileSources, func(s v1alpha1.FileSource) daemon.FileSource { return daemon.FileSource(s) })
	out.StaticPodURL, out.StaticPodURLHeader = in.StaticPodURL, toHeader(in.StaticPodURLHeader)
	out.StaticPodURLCAFile, out.StaticPodURLCertFile = in.StaticPodURLCAFile, in.StaticPodURLCertFile
	out.StaticPodURLKeyFile, out.StaticPodURLTokenFile = in.StaticPodURLKeyFile, in.StaticPodURLTokenFile
	out.HTTPCheckFrequency = in.HTTPCheckFrequency.Duration
	out.HTTPSources = convertAll(in.HTTPSources, func(s v1alpha1.HTTPSource) daemon.HTTPSource {
		return daemon.HTTPSource{
			Name: s.Name, URL: s.URL, Header: toHeader(s.Header),
			CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, TokenFile: s.TokenFile,
		}
	})
	out.Kubeconfig, out.KeepManagedFields, out.NamespaceMetadata = in.Kubeconfig, in.KeepManagedFields, in.NamespaceMetadata
	out.EventRecordQPS, out.EventBurst = int(*in.EventRecordQPS), int(*in.EventBurst)
	out.CreateMirrorPods = in.CreateMirrorPods
	out.NodeName, out.NodeIP = in.HostnameOverride, in.NodeIP
	out.RemovalBrake = ""
	if in.RemovalBrake != nil {
		out.RemovalBrake = in.RemovalBrake.String()
	}
	out.KubeletVersion, out.KubeletPresence = *in.KubeletVersion, *in.KubeletPresence
	out.ContainerRuntimeEndpoint, out.ContainerRuntimeEvents = in.ContainerRuntimeEndpoint, *in.ContainerRuntimeEvents
	out.PLEGRelistPeriod, out.PLEGRelistThreshold = in.PLEGRelistPeriod.Duration, in.PLEGRelistThreshold.Duration
	out.RuntimeStatus, out.RuntimeStatusAPIPods = *in.RuntimeStatus, in.RuntimeStatusAPIPods
	out.SyncFrequency = in.SyncFrequency.Duration
	errs = append(errs, toSockets(in, out)...)
	out.MaxSubscribers, out.MaxSubscribersPerProcess = int(*in.MaxSubscribers), int(*in.MaxSubscribersPerProcess)
	out.JournalMaxUpdates, out.JournalMaxBytes = int(*in.JournalMaxUpdates), *in.JournalMaxBytes
	out.Tracing = daemon.Tracing(in.Tracing)
	out.StateDir, out.StateMaxAge, out.StateMaxBytes = in.StateDir, in.StateMaxAge.Duration, *in.StateMaxBytes
	return errs
}

// required returns an error for each named source without a name or without a place. The
// daemon takes a source without a name for the one of staticPodPath or staticPodURL.
func required(in *v1alpha1.PodConfigdConfiguration) (errs field.ErrorList) {
	check := func(path *field.Path, value, expected string) {
		if value == "" {
			errs = append(errs, field.Required(path, "required: expected "+expected))
		}
	}
	for i, source := range in.FileSources {
		path := field.NewPath("fileSources").Index(i)
		check(path.Child("name"), source.Name, "the name of the source")
		check(path.Child("path"), source.Path, "a directory or a manifest file")
	}
	for i, source := range in.HTTPSources {
		path := field.NewPath("httpSources").Index(i)
		check(path.Child("name"), source.Name, "the name of the source")
		check(path.Child("url"), source.URL, "the URL of a manifest")
	}
	return errs
}

func toSockets(in *v1alpha1.PodConfigdConfiguration, out *daemon.Config) (errs field.ErrorList) {
	out.Socket, out.SocketGroup, out.PodsAPISocket = *in.Socket, in.SocketGroup, in.PodsAPISocket
	mode, err := ParseMode(*in.SocketMode)
	if err != nil {
		errs = append(errs, field.Invalid(field.NewPath("socketMode"), *in.SocketMode, err.Error()))
	}
	out.SocketMode = mode
	out.MetricsBindAddress, out.Listen = in.MetricsBindAddress, slices.Clone(in.Listen)
	out.TLSCertFile, out.TLSPrivateKeyFile = in.TLSCertFile, in.TLSPrivateKeyFile
	from := &in.Authentication
	out.Authentication = daemon.Authentication{
		ClientCAFile: from.X509.ClientCAFile, TokenAuthFile: from.TokenAuthFile,
		Webhook: from.Webhook.Enabled, WebhookCacheTTL: duration(from.Webhook.CacheTTL),
		Anonymous: from.Anonymous.Enabled,
	}
	out.Authorization = daemon.Authorization{
		Mode:               in.Authorization.Mode,
		CacheAuthorizedTTL: duration(in.Authorization.Webhook.CacheAuthorizedTTL), CacheUnauthorizedTTL: duration(in.Authorization.Webhook.CacheUnauthorizedTTL),
	}
	out.Access = nil
	for i := range in.Access {
		rule, faults := toRule(&in.Access[i], field.NewPath("access").Index(i))
		out.Access, errs = append(out.Access, rule), append(errs, faults...)
	}
	return errs
}

// views are the names of the levels of access.
var views = map[string]access.Level{"full": access.Full, "redacted": access.Redacted, "metadata": access.Metadata, "none": access.None}

func toRule(in *v1alpha1.AccessRule, path *field.Path) (rule access.Rule, errs field.ErrorList) {
	rule = access.Rule{
		Users: in.Users, Groups: in.Groups, UIDs: in.UIDs, GIDs: in.GIDs,
		AuthenticatedUsers: in.AuthenticatedUsers, AuthenticatedGroups: in.AuthenticatedGroups,
		Sources: in.Sources, Namespaces: in.Namespaces, View: views[in.View], Annotations: in.Annotations,
	}
	if _, known := views[in.View]; !known {
		errs = append(errs, field.Invalid(path.Child("view"), in.View, "expected full, redacted, metadata or none"))
	}
	if in.LabelSelector != "" {
		selector, err := labels.Parse(in.LabelSelector)
		if err != nil {
			errs = append(errs, field.Invalid(path.Child("labelSelector"), in.LabelSelector, err.Error()))
		}
		rule.LabelSelector = selector
	}
	return rule, errs
}

// ParseMode returns the mode of a socket.
func ParseMode(s string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(s, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("%q is not a file mode: expected octal digits, 0 to 0777, for example 0660", s)
	}
	return fs.FileMode(mode), nil
}

func convertAll[In, Out any](in []In, convert func(In) Out) (out []Out) {
	for _, item := range in {
		out = append(out, convert(item))
	}
	return out
}

// toHeader returns headers with canonical names. Of names that differ in case, the values are in the order of
// the names: the same file always gives the same headers.
func toHeader(in map[string][]string) http.Header {
	out := make(http.Header, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		for _, value := range in[name] {
			out.Add(name, value)
		}
	}
	return out
}

func duration(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}
