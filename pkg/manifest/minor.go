package manifest

import (
	"fmt"
	"strconv"
	"strings"
)

// Minor is the minor version of a kubelet: 36 for 1.36.
type Minor int

const (
	// Oldest is the first minor whose rules are known.
	Oldest Minor = 33
	// Base is the newest known minor: the minor of k8s.io/kubernetes in go.mod.
	Base Minor = 37
)

// Minors returns all minors whose rules are known, the oldest first.
func Minors() (all []Minor) {
	for m := Oldest; m <= Base; m++ {
		all = append(all, m)
	}
	return all
}

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
