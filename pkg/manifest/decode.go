package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // registers the core types and their defaults
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/util/hash"
)

// MaxLength is the size in bytes that a manifest must stay below.
//
// kubelet: pkg/kubelet/config/common.go maxConfigLength, and utilio.ReadAtMost,
// which refuses the limit itself.
const MaxLength = 10 << 20

// configHashAnnotationKey is the annotation that holds the pod's UID.
//
// kubelet: pkg/kubelet/types ConfigHashAnnotationKey.
const configHashAnnotationKey = "kubernetes.io/config.hash"

// decoder reads every registered version, defaults it and gives the internal type.
var decoder = legacyscheme.Codecs.UniversalDecoder()

// Decoder decodes the manifests of one node. It is safe for concurrent use.
type Decoder struct {
	nodeName types.NodeName
}

// NewDecoder returns a decoder for the node of that name.
func NewDecoder(nodeName types.NodeName) *Decoder { return &Decoder{nodeName: nodeName} }

// ErrTooLarge is the refusal of a manifest of MaxLength bytes or more.
var ErrTooLarge error = refuse(ReasonTooLarge, "it has 10 MiB or more; a manifest must be smaller")

// Read reads a manifest of less than MaxLength bytes.
func Read(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxLength))
	if err != nil {
		return nil, err
	}
	if len(data) >= MaxLength {
		return nil, ErrTooLarge
	}
	return data, nil
}

// DecodeFile returns the pod of a manifest file. The path is part of the pod's
// UID and must be as the kubelet would have it: the manifest path joined with the
// file's name, or the manifest path itself where that is the file.
//
// The error, where there is one, is an [*Error]. The warnings tell of things that
// the kubelet passes over in silence.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod, applyDefaults.
func (d *Decoder) DecodeFile(path string, data []byte) (pod *v1.Pod, warnings []string, err error) {
	internal, err := decodePod(data)
	if err != nil {
		return nil, nil, err
	}
	pod, err = d.finish(internal, origin{file: path})
	if err != nil {
		return nil, nil, err
	}
	if n := laterDocuments(data); n > 0 {
		warnings = append(warnings, fmt.Sprintf(
			"it holds %d more YAML document(s) after the first; only the first is read, as the kubelet does: put each pod in a file of its own", n))
	}
	return pod, warnings, nil
}

// decodePod decodes and defaults, and looks at nothing else.
func decodePod(data []byte) (*api.Pod, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, refuse(ReasonEmpty, "it is empty")
	}
	// JSON is YAML, so this serves for both.
	json, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, refuse(ReasonNotYAML, "it is neither YAML nor JSON: %w", err)
	}
	return decodeJSON(json)
}

// origin is where a manifest comes from: a file or a URL.
type origin struct{ file, url string }

// finish makes the pod out of what was decoded.
func (d *Decoder) finish(internal *api.Pod, from origin) (*v1.Pod, error) {
	d.applyDefaults(internal, from)
	if err := validate(internal); err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	if err := corev1.Convert_core_Pod_To_v1_Pod(internal, pod, nil); err != nil {
		return nil, refuse(ReasonInvalid, "converting it to v1: %w", err)
	}
	return pod, nil
}

// applyDefaults gives the pod what sets a static pod apart: UID, name, namespace,
// node, hash annotation, phase and, where it comes from a file, a toleration.
func (d *Decoder) applyDefaults(pod *api.Pod, from origin) {
	if pod.UID == "" {
		hasher := fnv.New128a()
		hash.DeepHashObject(hasher, pod)
		// DeepHashObject resets the hash, so the origin comes after it.
		if from.file != "" {
			fmt.Fprintf(hasher, "host:%s", d.nodeName)
			fmt.Fprintf(hasher, "file:%s", from.file)
		} else {
			fmt.Fprintf(hasher, "url:%s", from.url)
		}
		pod.UID = types.UID(hex.EncodeToString(hasher.Sum(nil)))
	}
	pod.Name = pod.Name + "-" + strings.ToLower(string(d.nodeName))
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = string(d.nodeName)
	if pod.Annotations == nil {
		pod.Annotations = make(map[string]string)
	}
	pod.Annotations[configHashAnnotationKey] = string(pod.UID)
	if from.file != "" {
		// Static pods are not evicted when the node has problems.
		helper.AddOrUpdateTolerationInPod(pod, &api.Toleration{
			Operator: api.TolerationOpExists,
			Effect:   api.TaintEffectNoExecute,
		})
	}
	pod.Status.Phase = api.PodPending
}

// validate holds the pod to the API's rules and to those for static pods.
func validate(pod *api.Pod) error {
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	if errs := validation.ValidatePodCreate(pod, opts); len(errs) > 0 {
		return invalid(errs)
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.PreventStaticPodAPIReferences) {
		_, resource, err := podutil.HasAPIObjectReference(pod)
		if err != nil {
			return refuse(ReasonForbidden, "looking for references to API objects: %w", err)
		}
		if resource != "" {
			return refuse(ReasonForbidden, "a static pod may not refer to API objects, and this one refers to %s", resource)
		}
		return nil
	}
	return validateLegacy(pod)
}

// validateLegacy is what holds for static pods where the feature gate
// PreventStaticPodAPIReferences is off.
func validateLegacy(pod *api.Pod) error {
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ClusterTrustBundle != nil {
				return refuse(ReasonForbidden, "a static pod may not use ClusterTrustBundle volumes, and volume %q does", volume.Name)
			}
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return refuse(ReasonForbidden, "a static pod may not use resource claims")
	}
	return nil
}

// laterDocuments counts the YAML documents after the first that hold anything.
func laterDocuments(data []byte) int {
	documents, content := 0, false
	for line := range bytes.Lines(data) {
		if rest, isStart := documentStart(line); isStart {
			content, line = false, rest
		}
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' || content {
			continue
		}
		content = true
		documents++
	}
	return max(documents-1, 0)
}

// documentStart tells whether the line begins a YAML document, and returns what
// else stands on it.
func documentStart(line []byte) (rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(line, []byte("---"))
	if !ok || (len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \t\r\n")) {
		return nil, false
	}
	return rest, true
}

// Fields returns the faults by field, where validation found any.
func Fields(err error) field.ErrorList {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Fields
	}
	return nil
}
