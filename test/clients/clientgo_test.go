package clients

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var podsResource = v1.SchemeGroupVersion.WithResource("pods")

// restConfig reads the kubeconfig.
func (n *node) restConfig(t *testing.T) *rest.Config {
	t.Helper()
	kubeconfig := n.kubeconfig(t)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func typedInformer(t *testing.T, n *node) view {
	t.Helper()
	client, err := kubernetes.NewForConfig(n.restConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	return informerView(informer, wholePod, func(object any) (*v1.Pod, error) { return object.(*v1.Pod), nil })
}

func dynamicInformer(t *testing.T, n *node) view {
	t.Helper()
	client, err := dynamic.NewForConfig(n.restConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(podsResource).Informer()
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	return informerView(informer, wholePod, func(object any) (*v1.Pod, error) {
		pod := new(v1.Pod)
		return pod, runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, pod)
	})
}

func metadataInformer(t *testing.T, n *node) view {
	t.Helper()
	client, err := metadata.NewForConfig(n.restConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	informer := factory.ForResource(podsResource).Informer()
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	return informerView(informer, onlyMetadata, func(object any) (*v1.Pod, error) {
		return &v1.Pod{ObjectMeta: object.(*metav1.PartialObjectMetadata).ObjectMeta}, nil
	})
}

// informerView compares what form returns of each pod.
func informerView(informer cache.SharedIndexInformer, form func(*v1.Pod) string, pod func(object any) (*v1.Pod, error)) view {
	return view{
		want: func(pods []v1.Pod) (lines []string) {
			for i := range pods {
				lines = append(lines, form(&pods[i]))
			}
			return lines
		},
		got: func(context.Context) (lines []string, err error) {
			if !informer.HasSynced() {
				return nil, errors.New("the informer is not synced")
			}
			for _, object := range informer.GetStore().List() {
				p, err := pod(object)
				if err != nil {
					return nil, err
				}
				lines = append(lines, form(p))
			}
			return lines, nil
		},
	}
}

// wholePod has everything but what the Kubernetes API adds to the pods of /pods.
func wholePod(p *v1.Pod) string {
	p = p.DeepCopy()
	p.TypeMeta = metav1.TypeMeta{}
	p.ResourceVersion, p.CreationTimestamp = "", metav1.Time{}
	return line(p)
}

func onlyMetadata(p *v1.Pod) string {
	return wholePod(&v1.Pod{ObjectMeta: p.ObjectMeta})
}
