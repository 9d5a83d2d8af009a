// Package podtest builds pods and manifests for tests.
//
//	podtest.Pod("web=nginx:1", podtest.In("shop"), podtest.IPs("10.0.0.1"))
//	podtest.Manifest("web", "nginx:1")
//
// Updates of pods are in journaltest.
package podtest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sourceAnnotation and hashAnnotation are constants of pkg/config, whose tests use this package.
const (
	sourceAnnotation = "kubernetes.io/config.source"
	hashAnnotation   = "kubernetes.io/config.hash"
)

// Pod returns a pod of the namespace "default" whose UID is its name, with the container "c". The content is
// "name" or "name=image". The image is also the label "image". The changes are made in their order.
func Pod(content string, changes ...func(*v1.Pod)) *v1.Pod {
	name, image, _ := strings.Cut(content, "=")
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"image": image}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// In sets the namespace.
func In(namespace string) func(*v1.Pod) { return func(p *v1.Pod) { p.Namespace = namespace } }

// UID sets the UID.
func UID(uid string) func(*v1.Pod) { return func(p *v1.Pod) { p.UID = types.UID(uid) } }

// Label sets one label.
func Label(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

// Annotation sets one annotation.
func Annotation(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

// From sets the annotation with the source, as the merge does.
func From(source string) func(*v1.Pod) { return Annotation(sourceAnnotation, source) }

// Static makes a static pod of the directory, with the hash of its manifest.
func Static(hash string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		From("file")(p)
		Annotation(hashAnnotation, hash)(p)
	}
}

// Status sets the status.
func Status(status v1.PodStatus) func(*v1.Pod) { return func(p *v1.Pod) { p.Status = status } }

// Phase sets the phase.
func Phase(phase v1.PodPhase) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.Phase = phase } }

// IPs sets the addresses.
func IPs(ips ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, v1.PodIP{IP: ip})
		}
		if len(ips) > 0 {
			p.Status.PodIP = ips[0]
		}
	}
}

// Mirror returns the mirror pod of a static pod. Its UID is "mirror-of-" and the UID of the static pod.
func Mirror(static *v1.Pod, changes ...func(*v1.Pod)) *v1.Pod {
	m := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: static.Namespace, Name: static.Name, UID: "mirror-of-" + static.UID,
		Annotations: map[string]string{v1.MirrorPodAnnotationKey: static.Annotations[hashAnnotation]},
	}}
	for _, change := range changes {
		change(m)
	}
	return m
}

// Manifest returns the manifest of a pod with one container, as YAML.
func Manifest(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: %q}]}\n", name, image)
}

// Item returns the manifest of a pod with one container, as an item of a List.
func Item(name, image string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":%q}]}}`, name, image)
}

// List returns the manifest of a list of pods, as JSON.
func List(items ...string) string {
	return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
}
