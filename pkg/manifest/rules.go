package manifest

import (
	"crypto/md5" //nolint:gosec // older kubelets use it
	"fmt"
	"hash"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	netutils "k8s.io/utils/net"

	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

// The rules below are the rules of older kubelets. Feature gates can't replace them: a process can
// emulate an older version only as a whole, and the gates do not have all the rules. test/kubelets
// compares each minor with its kubelet.

// newHash returns the hash that makes the UID.
//
// kubelet: pkg/kubelet/config/common.go applyDefaults.
func (m Minor) newHash() hash.Hash {
	if m <= 34 {
		return md5.New() //nolint:gosec // as the kubelet does
	}
	return fnv.New128a()
}

// validationOptions returns the options of the validation. Up to 1.34, the kubelet passes none.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod, and the defaults of the feature gates.
func (m Minor) validationOptions() validation.PodValidationOptions {
	var opts validation.PodValidationOptions
	if m >= 35 {
		opts = gated()
	}
	if m == 35 {
		opts.AllowRestartAllContainers, opts.InPlacePodLevelResourcesVerticalScalingEnabled = false, false
	}
	if m == 35 || m == 36 {
		opts.AllowOnlyRecursiveSELinuxChangePolicy = true
	}
	opts.AllowExistingRestartContainerForNonSidecarInitContainer = m <= 35
	opts.AllowUserNamespacesWithVolumeDevices = m <= 33
	opts.AllowEmptyImageVolumeReference = m <= 36
	return opts
}

// gated returns the options that the feature gates give. They are the same for all new pods, and finding them takes as long
// as decoding the YAML.
var gated = sync.OnceValue(func() validation.PodValidationOptions {
	return podutil.GetValidationOptionsFromPodSpecAndMeta(nil, nil, nil, nil)
})

// hasKindOfItems reports whether the UID of an item of a PodList depends on its kind.
func (m Minor) hasKindOfItems() bool { return m >= 37 }

// ignores reports whether the kubelet of the minor accepts what the validation of the base refuses: up to
// 1.35, an IP address may have leading zeros, or be an IPv4 address in IPv6.
func (m Minor) ignores(err *field.Error) bool {
	if m > 35 || !strings.HasPrefix(err.Field, "spec.hostAliases[") {
		return false
	}
	ip, _ := err.BadValue.(string)
	return netutils.ParseIPSloppy(ip) != nil
}

// refusals returns what the kubelet of the minor refuses and the validation of the base accepts.
func (m Minor) refusals(t *text, pod *api.Pod, data []byte) (found yamlfault.Findings) {
	if m >= 35 {
		return found
	}
	refuse := func(path, format string, args ...any) {
		found.Add(func() Fault { return t.At(path, format+": kubelet %s", append(args, m)...) })
	}
	refuseImageVolumes(pod, data, refuse)
	if dns := pod.Spec.DNSConfig; dns != nil {
		for i, search := range dns.Searches {
			for _, why := range utilvalidation.IsDNS1123Subdomain(strings.TrimSuffix(search, ".")) {
				refuse(fmt.Sprintf("spec.dnsConfig.searches[%d]", i), "Invalid value: %q: %s", search, printable.Rule(why))
			}
		}
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		refuseSleeps(pod.Spec.InitContainers, "spec.initContainers", refuse)
		refuseSleeps(pod.Spec.Containers, "spec.containers", refuse)
	}
	return found
}

// refuseImageVolumes refuses image volumes without a pullPolicy, which has no default up to 1.34.
func refuseImageVolumes(pod *api.Pod, data []byte, refuse func(path, format string, args ...any)) {
	var own v1.Pod
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Image == nil {
			continue
		}
		if own.Spec.Volumes == nil && json.Unmarshal(data, &own) != nil {
			return // it was decoded before
		}
		if image := own.Spec.Volumes[i].Image; image != nil && image.PullPolicy == "" {
			refuse(fmt.Sprintf("spec.volumes[%d].image.pullPolicy", i), "Required value")
		}
	}
}

// refuseSleeps refuses handlers that sleep for 0 seconds.
func refuseSleeps(containers []api.Container, path string, refuse func(path, format string, args ...any)) {
	for i := range containers {
		lifecycle := containers[i].Lifecycle
		if lifecycle == nil {
			continue
		}
		for name, handler := range map[string]*api.LifecycleHandler{"postStart": lifecycle.PostStart, "preStop": lifecycle.PreStop} {
			if handler != nil && handler.Sleep != nil && handler.Sleep.Seconds == 0 {
				refuse(fmt.Sprintf("%s[%d].lifecycle.%s.sleep.seconds", path, i, name), "Invalid value: 0: must be greater than 0")
			}
		}
	}
}

// Minor is the minor version of a kubelet: 36 for 1.36.
type Minor int

const (
	// Oldest is the first minor whose rules are known.
	Oldest Minor = 33
	// Base is the newest known minor: the minor of k8s.io/kubernetes in go.mod.
	Base Minor = 37
)

// Known reports whether the rules of the minor are known.
func (m Minor) Known() bool { return m >= Oldest && m <= Base }

// Nearest returns the known minor that is nearest.
func (m Minor) Nearest() Minor { return min(max(m, Oldest), Base) }

// String returns "1.36".
func (m Minor) String() string { return fmt.Sprintf("1.%d", int(m)) }

// ParseMinor returns the minor of a version such as 1.36, v1.36.3 or v1.34.4-eks-1a2b3c.
func ParseMinor(version string) (Minor, error) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(version, "v"), "1.")
	number, _, _ := strings.Cut(rest, ".")
	m, err := strconv.ParseUint(number, 10, 16)
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is not a version of the kubelet: expected one such as 1.36 or v1.36.3", version)
	}
	return Minor(m), nil
}
