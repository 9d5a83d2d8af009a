//go:build nologger

package main

import (
	_ "unsafe" // for go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/kubelet/config"
)

//go:linkname applyDefaults k8s.io/kubernetes/pkg/kubelet/config.applyDefaults
func applyDefaults(pod *api.Pod, source string, isFile bool, nodeName types.NodeName) error

//go:linkname tryDecodeSinglePod k8s.io/kubernetes/pkg/kubelet/config.tryDecodeSinglePod
func tryDecodeSinglePod(data []byte, defaultFn func(pod *api.Pod) error) (parsed bool, pod *v1.Pod, err error)

//go:linkname tryDecodePodList k8s.io/kubernetes/pkg/kubelet/config.tryDecodePodList
func tryDecodePodList(data []byte, defaultFn func(pod *api.Pod) error) (parsed bool, pods v1.PodList, err error)

func single(data []byte, source string, isFile bool) (parsed bool, pod *v1.Pod, err error) {
	return tryDecodeSinglePod(data, func(pod *api.Pod) error {
		return applyDefaults(pod, source, isFile, node)
	})
}

func list(data []byte, source string) (parsed bool, pods v1.PodList, err error) {
	return tryDecodePodList(data, func(pod *api.Pod) error {
		return applyDefaults(pod, source, false, node)
	})
}
