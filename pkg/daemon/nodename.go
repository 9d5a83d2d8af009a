package daemon

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NodeName returns the node's name as the kubelet has it: the override, or else the
// hostname, in lower case.
//
// kubelet: k8s.io/component-helpers/node/util GetHostname.
func NodeName(override string) (types.NodeName, error) {
	name := override
	if name == "" {
		hostname, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("finding out the hostname (name the node with --hostname-override): %w", err)
		}
		name = hostname
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" {
		return "", errors.New("the node's name is empty: name it with --hostname-override")
	}
	// Every static pod's name ends in it, and the apiserver takes no node of another name.
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%q can't be the node's name: name another with --hostname-override: %s", name, problems[0])
	}
	return types.NodeName(name), nil
}
