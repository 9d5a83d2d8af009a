package configfile

// kubeletFormat is a KubeletConfiguration. The fields that podconfigd has under the same name
// with the same meaning are used.
var kubeletFormat = format{"kubelet.config.k8s.io/v1beta1", "KubeletConfiguration", []string{
	"staticPodPath", "staticPodURL", "staticPodURLHeader", "fileCheckFrequency", "httpCheckFrequency", "syncFrequency",
	"containerRuntimeEndpoint", "eventRecordQPS", "eventBurst",
}}
