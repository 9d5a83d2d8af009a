package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	logsapi "k8s.io/component-base/logs/api/v1"

	stream "github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// GroupName is the API group of the configuration file.
const GroupName = "config.podconfigd.dev"

// SchemeGroupVersion is the group and the version of the types of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// Kind is the kind of the configuration file.
const Kind = "PodConfigdConfiguration"

// AddToScheme adds the types and their defaults to the scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &PodConfigdConfiguration{})
	return RegisterDefaults(scheme)
}

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
