package history

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ParseSince parses the start of a history: a period before now, as in 10m, or a time in the
// format of RFC 3339. It is zero if the text is empty.
func ParseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if period, err := time.ParseDuration(s); err == nil {
		if period <= 0 {
			return time.Time{}, fmt.Errorf("%s is not a period: expected more than 0s", s)
		}
		return now.Add(-period), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a period nor a time: expected for example 10m or 2026-01-02T15:04:05Z", s)
	}
	return at, nil
}

// ParsePod parses the name of a pod. An empty one is no error.
func ParsePod(s string) (types.NamespacedName, error) {
	if s == "" {
		return types.NamespacedName{}, nil
	}
	namespace, name, ok := strings.Cut(s, "/")
	if !ok {
		return types.NamespacedName{}, fmt.Errorf("%q is not a pod: expected NAMESPACE/NAME", s)
	}
	for _, part := range []string{namespace, name} {
		if problems := validation.IsDNS1123Subdomain(part); len(problems) > 0 {
			return types.NamespacedName{}, fmt.Errorf("%q is not a pod: %q: %s", s, part, problems[0])
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
