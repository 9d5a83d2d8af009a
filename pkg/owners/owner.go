package owners

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

const (
	// maxSteps is the maximum length of a chain of owners. References can form a circle.
	maxSteps = 8
	// maxText is the maximum size of a reference, and of the labels of an owner, in bytes. Everybody who may create pods or owners can
	// write long ones, and ended pods keep their owners.
	maxText = 4 << 10
)

// ref is a reference to a controller, in the namespace of a pod.
type ref struct {
	kindRef

	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// kindRef is a kind as references have it, in the namespace of a pod: rights can differ between namespaces.
type kindRef struct {
	Namespace  string `json:"namespace"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// isNode reports whether the owner is that of static pods and mirror pods. It is never read.
func (r *ref) isNode() bool { return r.APIVersion == "v1" && r.Kind == "Node" }

func (r *ref) owner() v1alpha1.Owner {
	return v1alpha1.Owner{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID)}
}

func (r *ref) compare(other *ref) int {
	return cmp.Or(
		strings.Compare(r.Namespace, other.Namespace), strings.Compare(r.Kind, other.Kind), strings.Compare(r.Name, other.Name),
		strings.Compare(string(r.UID), string(other.UID)), strings.Compare(r.APIVersion, other.APIVersion))
}

// controllerOf returns the reference to the controller of an object in a namespace; nil if there is none, or if it is longer than
// that of any object can be, or not UTF-8.
func controllerOf(object metav1.Object, namespace string) *ref {
	c := metav1.GetControllerOfNoCopy(object)
	if c == nil {
		return nil
	}
	length := 0
	for _, text := range [...]string{c.APIVersion, c.Kind, c.Name, string(c.UID)} {
		if length += len(text); length > maxText || !utf8.ValidString(text) {
			return nil
		}
	}
	return &ref{kindRef{namespace, c.APIVersion, c.Kind}, c.Name, c.UID}
}

// labelsOf returns the labels of an object; nil if they are too long.
func labelsOf(object metav1.Object) map[string]string {
	n := 0
	for key, value := range object.GetLabels() {
		n += len(key) + len(value)
	}
	if n > maxText {
		return nil
	}
	return object.GetLabels()
}

// owner is what is known of an owner. It is also a line of the file.
type owner struct {
	ref
	// Labels and Up, its controller or nil, are set if known is true.
	Labels map[string]string `json:"labels,omitempty"`
	Up     *ref              `json:"up,omitempty"`

	known bool
	// look is the last look at which a present pod had the owner, and used when no pod had it any more.
	look int64
	used time.Time
	// asked is when the last request began, backoff when to ask again, and problem why the apiserver refuses. failed is true if it did
	// not answer.
	asked   time.Time
	backoff await.Backoff
	problem string
	failed  bool
}

// before reports whether to ask for an owner before another.
func (o *owner) before(other *owner) bool {
	if o.known != other.known {
		return other.known
	}
	return cmp.Or(o.asked.Compare(other.asked), o.compare(&other.ref)) < 0
}

// Of returns the owners of a pod that are known now, from its controller to the top. The pod can be a form that leaves out its
// owner references: then it has none. The owners of a static pod are its manifest file, if it has one, and its node. The labels are shared and read-only.
func (r *Resolver) Of(pod *journal.Pod) (chain []v1alpha1.Owner) {
	if config.SourceKind(pod.Source) != config.ApiserverSource {
		if pod.File != nil {
			path := strings.ToValidUTF8(pod.File.Path, "\uFFFD") // protobuf has no other texts
			chain = append(chain, v1alpha1.Owner{Kind: v1alpha1.FileKind, Name: path})
		}
		return append(chain, r.nodeOf(pod.Object))
	}
	next := controllerOf(pod.Object, pod.Object.Namespace)
	r.mu.Lock()
	defer r.mu.Unlock()
	for next != nil && len(chain) < maxSteps {
		step := next.owner()
		o := r.owners[*next]
		if next = nil; o != nil && o.known {
			step.Labels, next = o.Labels, o.Up
		}
		chain = append(chain, step)
	}
	return chain
}

func (r *Resolver) nodeOf(pod *v1.Pod) v1alpha1.Owner {
	owner := v1alpha1.Owner{APIVersion: "v1", Kind: "Node", Name: pod.Spec.NodeName}
	if object := r.node.Load(); object != nil {
		owner.UID = string(object.UID)
	}
	return owner
}

// maxKinds is the number of kinds beyond which those are forgotten that no owner has. They are found again.
const maxKinds = 256

// kind is what is known of a kind in a namespace.
type kind struct {
	// resource is the name in paths; empty if it is not known yet.
	resource   string
	namespaced bool
	// backoff is the wait after the kind was not found, or may not be read, and problem is why.
	backoff await.Backoff
	problem string
}

// builtIn has the kinds for which the apiserver need not be asked. All are namespaced.
var builtIn = map[string]string{
	"apps/v1 ReplicaSet":       "replicasets",
	"apps/v1 Deployment":       "deployments",
	"apps/v1 StatefulSet":      "statefulsets",
	"apps/v1 DaemonSet":        "daemonsets",
	"batch/v1 Job":             "jobs",
	"batch/v1 CronJob":         "cronjobs",
	"v1 ReplicationController": "replicationcontrollers",
}

func newKind(r kindRef) *kind {
	resource, known := builtIn[r.APIVersion+" "+r.Kind]
	return &kind{resource: resource, namespaced: known}
}

// path returns the path of an owner. If its kind is not known yet, path asks the apiserver. The error is of the kind, not of the
// owner.
func (r *Resolver) path(ctx context.Context, of *ref) (string, error) {
	version, err := versionPath(of.APIVersion)
	if err != nil {
		return "", err
	}
	k := r.kinds[of.kindRef]
	if k.resource == "" {
		if err := r.discover(ctx, k, version, of); err != nil {
			return "", err
		}
	}
	if k.namespaced {
		version += "/namespaces/" + of.Namespace
	}
	return version + "/" + k.resource + "/" + of.Name, nil
}

// versionPath returns the path of the resources of an apiVersion.
func versionPath(apiVersion string) (string, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || gv.Version == "" || len(content.IsPathSegmentName(gv.Group))+len(content.IsPathSegmentName(gv.Version)) > 0 {
		return "", apierrors.NewBadRequest(fmt.Sprintf("apiVersion %q of an owner reference is not valid", apiVersion))
	}
	if gv.Group == "" {
		return "/api/" + gv.Version, nil
	}
	return "/apis/" + apiVersion, nil
}

// discover finds the resource of a kind.
func (r *Resolver) discover(ctx context.Context, k *kind, version string, of *ref) error {
	if err := r.limiter.Wait(ctx); err != nil {
		return err
	}
	list, err := r.opts.Client.Resources(ctx, version)
	if err != nil {
		return fmt.Errorf("finding the resource of %s %s: %w", of.APIVersion, of.Kind, err)
	}
	for i := range list.APIResources {
		if a := &list.APIResources[i]; a.Kind == of.Kind && !strings.Contains(a.Name, "/") && len(content.IsPathSegmentName(a.Name)) == 0 {
			k.resource, k.namespaced = a.Name, a.Namespaced
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: of.APIVersion}, of.Kind)
}
