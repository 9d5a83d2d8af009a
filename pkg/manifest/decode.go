package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // registers the core types and their defaults
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

// MaxLength is the size limit of a manifest in bytes. A manifest must be smaller.
//
// kubelet: pkg/kubelet/config/common.go maxConfigLength, and utilio.ReadAtMost, which
// refuses the limit itself.
const MaxLength = 10 << 20

// maxName is the maximum length of a name that a refused manifest is known by.
const maxName = 253

// configHashAnnotationKey is the annotation with the pod's UID.
//
// kubelet: pkg/kubelet/types ConfigHashAnnotationKey.
const configHashAnnotationKey = "kubernetes.io/config.hash"

// decoder reads every registered version, applies defaults and returns the internal type.
// It also reports unknown and duplicate fields, which the kubelet's decoder ignores.
var decoder = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDecoder()

// errTooLarge is the error for a manifest of MaxLength bytes or more.
var errTooLarge = refuse(ReasonTooLarge, "10 MiB or more: a manifest must be smaller")

// beginning is how many bytes of a text that is too large are searched for the key of an object.
const beginning = 64 << 10

// Read reads a manifest of less than MaxLength bytes. It makes room for one of the given size at once; 0 if the size is
// unknown. The [*Error] for a larger text is Foreign if nothing at its beginning is a key of a Kubernetes object.
func Read(r io.Reader, size int64) ([]byte, error) {
	data := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+min(size, MaxLength)))
	if _, err := data.ReadFrom(io.LimitReader(r, MaxLength)); err != nil {
		return nil, err
	}
	if data.Len() >= MaxLength {
		own := *errTooLarge
		own.Foreign = !hasObjectKey(data.Bytes()[:beginning])
		return nil, &own
	}
	return data.Bytes(), nil
}

// DecodeFile returns the pod of a manifest file. The path is part of the pod's UID and
// must be the kubelet's: the manifest path joined with the file's name, or the manifest
// path itself if it is the file.
//
// The error, if there is one, is an [*Error]. The warnings are faults that the kubelet
// ignores. A refused manifest has warnings too.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod, applyDefaults.
func (d *Decoder) DecodeFile(path string, data []byte) (pod *v1.Pod, warnings []Fault, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		empty := refuse(ReasonEmpty, "the file is empty")
		empty.Foreign = true
		return nil, nil, empty
	}
	done := alone(data)
	defer done()
	t := newText(path, data)
	defer func() {
		if refused := t.panicked(recover()); refused != nil {
			pod, err = nil, refused
		}
	}()
	json, duplicates, err := t.toJSON() // JSON is YAML too
	if err != nil {
		return nil, nil, d.refused(t, err, nil)
	}
	internal, found, err := t.decodePod(json)
	if err == nil {
		pod, err = d.finish(t, internal, json, origin{file: path}, &found)
	}
	err = d.refused(t, err, json)
	found.AddAll(duplicates)
	for _, f := range laterDocuments(data, "put each pod in its own file") {
		found.Add(func() Fault { return f })
	}
	return pod, found.Bounded(), err
}

// refused returns the error for a file. It says whether the file is meant as a pod, and names the pod, if the manifest has a
// name that can be one.
func (d *Decoder) refused(t *text, err error, json []byte) error {
	refused, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	own := *refused // some errors are shared
	own.Foreign = t.foreign(refused, json)
	if named := nameOf(json); own.Reason != ReasonNotAPod && named.Name != "" && max(len(named.Name), len(named.Namespace)) <= maxName {
		own.Namespace, own.Name = named.Namespace, d.podName(named.Name)
	}
	return &own
}

// podName returns the name that the kubelet gives a static pod.
func (d *Decoder) podName(name string) string {
	return name + "-" + strings.ToLower(string(d.nodeName))
}

// laterDocuments returns the warning that there are YAML documents or other text after the first document, or none.
func laterDocuments(data []byte, instead string) []Fault {
	line, n := yamlfault.LaterDocuments(data)
	if n == 0 {
		if line := yamlfault.AfterFlow(data); line > 0 {
			return []Fault{{Line: line, Message: "this line and what follows is after the end of the object, and is ignored, as the kubelet does"}}
		}
		return nil
	}
	return []Fault{{Line: line, Message: fmt.Sprintf("%d more YAML document(s) after the first are ignored, as the kubelet does: %s", n, instead)}}
}

// panicked returns the error for a manifest that makes the decoder or a rule panic, or nil. Otherwise the
// manifest would end the daemon at each start.
func (t *text) panicked(why any) error {
	if why == nil {
		return nil
	}
	klog.Background().Error(fmt.Errorf("panic: %v", why), "The manifest can't be decoded. Please report this",
		"file", t.File, "field", t.Prefix, "stack", string(debug.Stack()))
	return t.refuse(ReasonInvalid, t.At("", "podconfigd has a fault that this manifest meets (panic: %v): please report it", why))
}

// decodeObject does what decoder does. Of a good v1 Pod, it does not read all of the JSON for the kind first.
func decodeObject(json []byte) (runtime.Object, error) {
	own := new(v1.Pod)
	if strict, err := kjson.UnmarshalStrict(json, own); err != nil || len(strict) > 0 || own.APIVersion != "v1" || own.Kind != "Pod" {
		return runtime.Decode(decoder, json)
	}
	legacyscheme.Scheme.Default(own)
	pod := new(api.Pod)
	return pod, corev1.Convert_v1_Pod_To_core_Pod(own, pod, nil)
}

// decodePod only decodes and applies defaults.
func (t *text) decodePod(json []byte) (pod *api.Pod, warnings yamlfault.Findings, err error) {
	switch {
	case len(json) > maxPod:
		return nil, warnings, errPodTooLarge
	case tooMany(json):
		return nil, warnings, errTooManyValues
	}
	obj, err := decodeObject(json)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && obj != nil {
		warnings, err = t.strictFaults(strict.Errors(), json), nil
	}
	if err != nil {
		return nil, warnings, t.undecodable(err, json)
	}
	pod, ok := obj.(*api.Pod)
	if !ok {
		return nil, warnings, t.undecodable(fmt.Errorf("expected a Pod, got %T", obj), json)
	}
	if pod.Name == "" {
		return nil, warnings, t.refuse(ReasonInvalid, t.At("metadata.name", "Required value: a pod needs a name"))
	}
	return pod, warnings, nil
}

// origin is the source of a manifest: a file or a URL. kind is the kind of an item of a list.
type origin struct {
	file, url string
	isItem    bool
	kind      metav1.TypeMeta
}

// finish makes the pod of the decoded object.
func (d *Decoder) finish(t *text, internal *api.Pod, json []byte, from origin, found *yamlfault.Findings) (*v1.Pod, error) {
	m, own := d.Minor(), internal.UID != ""
	t.warnOfPriority(internal, found)
	t.warnOfMirror(internal, found)
	d.warnOfMetadata(t, internal, found)
	if err := m.prepare(t, internal, found); err != nil {
		return nil, err
	}
	d.applyDefaults(m, internal, from)
	if !own {
		d.identify(t, m, internal, json, from)
	}
	t.dropStatus(internal, found)
	if err := t.validate(m, internal, json, from.isItem); err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	if err := corev1.Convert_core_Pod_To_v1_Pod(internal, pod, nil); err != nil {
		return nil, t.refuse(ReasonInvalid, Fault{Message: "can't be converted to v1: " + err.Error()})
	}
	return pod, nil
}

// prepare changes the object to what the kubelet of the minor decodes.
func (m Minor) prepare(t *text, pod *api.Pod, found *yamlfault.Findings) error {
	err := m.dropNewFields(t, pod, found)
	if err == nil {
		err = m.defaultPodResources(pod)
	}
	if err != nil {
		return t.refuse(ReasonInvalid, Fault{Message: "can't be converted: " + err.Error()})
	}
	return nil
}

// uid returns the UID that the kubelet of the minor gives the pod.
//
// kubelet: pkg/kubelet/config/common.go applyDefaults.
func (d *Decoder) uid(m Minor, pod *api.Pod, from origin) types.UID {
	if m.hasKindOfItems() {
		pod.TypeMeta = from.kind
	}
	where := "url:" + from.url
	if from.file != "" {
		where = "host:" + string(d.nodeName) + "file:" + from.file
	}
	sum := hashed(m.newHash(), func(text []byte) []byte { return append(dumperOf(m).dump(text, pod), where...) })
	return types.UID(hex.EncodeToString(sum))
}

// applyDefaults adds the properties of a static pod: UID, name, namespace, node, hash
// annotation and, if it is from a file, a toleration.
func (d *Decoder) applyDefaults(m Minor, pod *api.Pod, from origin) {
	if pod.UID == "" {
		pod.UID = d.uid(m, pod, from)
	}
	pod.Name = d.podName(pod.Name)
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
}

// dropStatus gives the pod the status of a pod that nothing has started. The kubelet keeps the status of
// a manifest until it has computed its own. So the status of the manifest is part of the UID. It must
// have no other effect.
func (t *text) dropStatus(pod *api.Pod, found *yamlfault.Findings) {
	pod.Status.Phase = ""
	if status := &pod.Status; !reflect.ValueOf(status).Elem().IsZero() && !equality.Semantic.DeepEqual(*status, api.PodStatus{}) {
		found.Add(func() Fault { return t.At("status", "ignored: podconfigd and the kubelet find out the status") })
	}
	pod.Status = api.PodStatus{Phase: api.PodPending}
}
