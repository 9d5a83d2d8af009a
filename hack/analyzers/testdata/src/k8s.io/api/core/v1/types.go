// Package v1 has the shape of the types of Kubernetes.
package v1

type ObjectMeta struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
}

func (m *ObjectMeta) SetLabels(labels map[string]string) { m.Labels = labels }

func (m *ObjectMeta) GetLabels() map[string]string { return m.Labels }

type Pod struct {
	ObjectMeta
	Spec   PodSpec
	Status PodStatus
}

func (p *Pod) DeepCopy() *Pod { return &Pod{} }

func (p *Pod) DeepCopyInto(*Pod) {}

type PodSpec struct{ Containers []Container }

type Container struct {
	Name    string
	Command []string
}

type PodStatus struct{ Phase string }
