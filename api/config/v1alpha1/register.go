package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
