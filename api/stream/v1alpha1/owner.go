package v1alpha1

// Owner is an object that a pod belongs to, such as its ReplicaSet or its Deployment.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	// Labels are the labels of the object, if the daemon could read it.
	Labels map[string]string `json:"labels,omitempty"`
}
