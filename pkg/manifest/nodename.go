package manifest

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// NodeName returns the name of the node, with the rules of the kubelet: the override, or
// the hostname if the override is empty, in lower case.
//
// kubelet: k8s.io/component-helpers/node/util GetHostname.
func NodeName(override string) (types.NodeName, error) {
	name, hint := override, ""
	if name == "" {
		hint = "; set another with --hostname-override"
		hostname, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("reading the hostname: %w; set the node name with --hostname-override", err)
		}
		name = hostname
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" {
		return "", errors.New("the node name is empty" + hint)
	}
	// The name of every static pod ends in it, and the apiserver accepts only such node names.
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("invalid node name %q: %s%s", name, printable.Rule(problems[0]), hint)
	}
	return types.NodeName(name), nil
}
