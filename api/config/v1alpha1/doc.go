// Package v1alpha1 is the configuration file of podconfigd. Fields that exist in
// KubeletConfiguration have the same names and the same types.
//
// +k8s:deepcopy-gen=package
// +k8s:defaulter-gen=TypeMeta
// +groupName=config.podconfigd.dev
package v1alpha1 // the generators read the markers above only in a file of this name
