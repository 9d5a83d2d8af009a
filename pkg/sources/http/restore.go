package http

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// attributeURL is the name of an attribute: a digest of the URL of the pods. It is stored on disk, so it must not change.
const attributeURL = "url"

// attributes returns what is stored with a set, without secrets.
func (s *Source) attributes() map[string]string {
	return map[string]string{attributeURL: digest(s.url)}
}

// restored returns the pods from before a restart. Pods of another URL are not returned: they have other UIDs.
func (s *Source) restored(r sources.Restored) []*v1.Pod {
	if r.Attributes[attributeURL] != digest(s.url) {
		return nil
	}
	return r.Pods
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
