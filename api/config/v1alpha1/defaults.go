package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"

	stream "github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// SetDefaults_PodConfigdConfiguration sets the fields that are left out.
//
//nolint:revive // defaulter-gen requires the name
func SetDefaults_PodConfigdConfiguration(obj *PodConfigdConfiguration) {
	for _, ttl := range []**metav1.Duration{
		&obj.Authentication.Webhook.CacheTTL, &obj.Authorization.Webhook.CacheAuthorizedTTL, &obj.Authorization.Webhook.CacheUnauthorizedTTL,
	} {
		if *ttl != nil && (*ttl).Duration == 0 { // as for the kubelet
			*ttl = nil
		}
	}
	Options.SetDefaults(obj)
	if obj.Socket == nil {
		obj.Socket = new(stream.DefaultSocket())
	}
	logsapi.SetRecommendedLoggingConfiguration(&obj.Logging)
}
