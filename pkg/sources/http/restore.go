package http

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	nethttp "net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/internal/version"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// Names of attributes. They are stored on disk, so they must not change.
const (
	// attributeURL is a digest of the URL of the pods.
	attributeURL = "url"
	// attributeETag and attributeModified are the validator. attributeFor is its purpose.
	attributeETag     = "etag"
	attributeModified = "modified"
	attributeFor      = "for"
)

// identity is a URL and the headers that are sent to it.
type identity struct {
	url    string
	header nethttp.Header
}

// attributes returns what is stored with a set, without secrets: the validator of the answer that
// gave the pods, if it has one.
func (i identity) attributes(pods []*v1.Pod, v validator) map[string]string {
	attributes := map[string]string{attributeURL: digest(i.url)}
	if v == (validator{}) {
		return attributes
	}
	attributes[attributeFor] = i.purpose(pods)
	if v.etag != "" {
		attributes[attributeETag] = v.etag
	} else {
		attributes[attributeModified] = v.modified
	}
	return attributes
}

// restored returns the pods from before a restart and the validator of the answer that
// gave them. Pods of another URL are not returned: they have other UIDs.
func (i identity) restored(r sources.Restored) (pods []*v1.Pod, v validator) {
	if r.Attributes[attributeURL] != digest(i.url) {
		return nil, validator{}
	}
	if r.Attributes[attributeFor] != i.purpose(r.Pods) {
		return r.Pods, validator{}
	}
	return r.Pods, validator{etag: r.Attributes[attributeETag], modified: r.Attributes[attributeModified]}
}

// purpose returns a digest of what a validator belongs to: the request, the pods of its answer, and
// the version of podconfigd. Another version may make other pods of the same answer.
func (i identity) purpose(pods []*v1.Pod) string {
	parts := []string{fmt.Sprintf("%+v", version.Get()), i.url}
	for _, name := range slices.Sorted(maps.Keys(i.header)) {
		parts = append(parts, fmt.Sprintf("%q: %q", name, i.header[name]))
	}
	uids := make([]string, len(pods))
	for n, pod := range pods {
		uids[n] = string(pod.UID)
	}
	slices.Sort(uids)
	return digest(append(parts, uids...)...)
}

// digest returns a digest of the texts. The UIDs of the pods are digests of the URL too.
func digest(texts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", texts))
	return hex.EncodeToString(sum[:])
}

// restore adds the pods from before a restart, as if they were in the last answer.
func (s *podSet) restore(pods []*v1.Pod) {
	for _, pod := range pods {
		name := strings.TrimSuffix(pod.Name, "-"+strings.ToLower(pod.Spec.NodeName))
		s.pods[podKey{pod.Namespace, name}] = &podState{pod: pod, present: true}
	}
}

// flawless reports whether each item of the last answer gave a pod, without a warning. A
// 304 after a restart would hide the faults of the others.
func (s *podSet) flawless() bool {
	if len(s.refused.Shown()) > 0 {
		return false
	}
	for _, state := range s.pods {
		if !state.present || state.fault != nil || len(state.warnings) > 0 {
			return false
		}
	}
	return true
}
