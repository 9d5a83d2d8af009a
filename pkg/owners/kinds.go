package owners

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/internal/await"
)

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
