package configfile

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// toVersioned converts all fields. It is the inverse of toDaemon.
func toVersioned(in *daemon.Config, out *v1alpha1.PodConfigdConfiguration) {
	out.StaticPodPath, out.FileCheckFrequency = in.StaticPodPath, fromDuration(in.FileCheckFrequency)
	out.FileSources = convertAll(in.FileSources, func(s daemon.FileSource) v1alpha1.FileSource { return v1alpha1.FileSource(s) })
	out.StaticPodURL, out.StaticPodURLHeader = in.StaticPodURL, fromHeader(in.StaticPodURLHeader)
	out.StaticPodURLCAFile, out.StaticPodURLCertFile = in.StaticPodURLCAFile, in.StaticPodURLCertFile
	out.StaticPodURLKeyFile, out.StaticPodURLTokenFile = in.StaticPodURLKeyFile, in.StaticPodURLTokenFile
	out.HTTPCheckFrequency = fromDuration(in.HTTPCheckFrequency)
	out.HTTPSources = convertAll(in.HTTPSources, func(s daemon.HTTPSource) v1alpha1.HTTPSource {
		return v1alpha1.HTTPSource{
			Name: s.Name, URL: s.URL, Header: fromHeader(s.Header),
			CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, TokenFile: s.TokenFile,
		}
	})
	out.Kubeconfig, out.KeepManagedFields, out.NamespaceMetadata = in.Kubeconfig, in.KeepManagedFields, in.NamespaceMetadata
	out.EventRecordQPS, out.EventBurst = new(int32(in.EventRecordQPS)), new(int32(in.EventBurst)) //nolint:gosec // Validate limits them
	out.CreateMirrorPods = in.CreateMirrorPods
	out.HostnameOverride, out.NodeIP = in.NodeName, in.NodeIP
	if in.RemovalBrake != "" {
		out.RemovalBrake = new(intstr.Parse(in.RemovalBrake))
	}
	out.KubeletVersion, out.KubeletPresence = &in.KubeletVersion, &in.KubeletPresence
	out.ContainerRuntimeEndpoint, out.ContainerRuntimeEvents = in.ContainerRuntimeEndpoint, &in.ContainerRuntimeEvents
	out.PLEGRelistPeriod, out.PLEGRelistThreshold = fromDuration(in.PLEGRelistPeriod), fromDuration(in.PLEGRelistThreshold)
	out.RuntimeStatus, out.RuntimeStatusAPIPods = &in.RuntimeStatus, in.RuntimeStatusAPIPods
	out.SyncFrequency = fromDuration(in.SyncFrequency)
	fromSockets(in, out)
	out.MaxSubscribers, out.MaxSubscribersPerProcess = new(int32(in.MaxSubscribers)), new(int32(in.MaxSubscribersPerProcess)) //nolint:gosec // Validate limits them
	out.JournalMaxUpdates, out.JournalMaxBytes = new(int32(in.JournalMaxUpdates)), &in.JournalMaxBytes                        //nolint:gosec // see above
	out.Tracing = v1alpha1.TracingConfiguration(in.Tracing)
	out.StateDir, out.StateMaxAge, out.StateMaxBytes = in.StateDir, fromDuration(in.StateMaxAge), &in.StateMaxBytes
}

func fromSockets(in *daemon.Config, out *v1alpha1.PodConfigdConfiguration) {
	out.Socket, out.SocketGroup, out.PodsAPISocket = &in.Socket, in.SocketGroup, in.PodsAPISocket
	out.SocketMode = new(fmt.Sprintf("%04o", in.SocketMode))
	out.MetricsBindAddress, out.Listen = in.MetricsBindAddress, slices.Clone(in.Listen)
	out.TLSCertFile, out.TLSPrivateKeyFile = in.TLSCertFile, in.TLSPrivateKeyFile
	from := &in.Authentication
	out.Authentication = v1alpha1.Authentication{
		X509: v1alpha1.X509Authentication{ClientCAFile: from.ClientCAFile}, TokenAuthFile: from.TokenAuthFile,
		Webhook:   v1alpha1.WebhookAuthentication{Enabled: from.Webhook, CacheTTL: fromDuration(from.WebhookCacheTTL)},
		Anonymous: v1alpha1.AnonymousAuthentication{Enabled: from.Anonymous},
	}
	out.Authorization.Mode = in.Authorization.Mode
	out.Authorization.Webhook.CacheAuthorizedTTL = fromDuration(in.Authorization.CacheAuthorizedTTL)
	out.Authorization.Webhook.CacheUnauthorizedTTL = fromDuration(in.Authorization.CacheUnauthorizedTTL)
	out.Access = convertAll(in.Access, fromRule)
}

func fromRule(in access.Rule) v1alpha1.AccessRule {
	out := v1alpha1.AccessRule{
		Users: in.Users, Groups: in.Groups, UIDs: in.UIDs, GIDs: in.GIDs,
		AuthenticatedUsers: in.AuthenticatedUsers, AuthenticatedGroups: in.AuthenticatedGroups,
		Sources: in.Sources, Namespaces: in.Namespaces, Annotations: in.Annotations,
	}
	if in.LabelSelector != nil {
		out.LabelSelector = in.LabelSelector.String()
	}
	for name, level := range views {
		if level == in.View {
			out.View = name
		}
	}
	return out
}

func fromHeader(in http.Header) map[string][]string {
	if len(in) == 0 {
		return nil
	}
	return maps.Clone(in)
}

func fromDuration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
