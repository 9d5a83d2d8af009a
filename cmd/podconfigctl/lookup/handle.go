package lookup

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// self is the argument for the client.
const self = "self"

// handleQuery returns the query for a handle: self, or KIND:VALUE. It returns false if the argument is none.
func handleQuery(arg string) (query client.LookupQuery, ok bool, err error) {
	if arg == self {
		return client.LookupQuery{Self: true}, true, nil
	}
	kind, value, _ := strings.Cut(arg, ":")
	var id *uint64
	switch kind {
	case "log":
		return client.LookupQuery{LogPath: value}, value != "", nil
	case "device":
		return client.LookupQuery{Device: value}, true, nil
	case "cgroup":
		if strings.HasPrefix(value, "/") {
			return client.LookupQuery{Cgroup: value}, true, nil
		}
		id = &query.CgroupID
	case "netns":
		id = &query.NetNS
	case "mntns":
		id = &query.MntNS
	case "pidns":
		id = &query.PidNS
	case "cgroupns":
		id = &query.CgroupNS
	default:
		return query, false, nil
	}
	if *id, err = strconv.ParseUint(value, 10, 64); err != nil || *id == 0 {
		return query, true, fmt.Errorf("%q: %q is not an ID: expected 1 to %d", arg, value, uint64(math.MaxUint64))
	}
	return query, true, nil
}

// hostNamespaces are the namespaces of the host in words.
var hostNamespaces = map[string]string{"netns": "network", "mntns": "mount", "pidns": "PID", "cgroupns": "cgroup"}

// printHost prints the answer for a namespace of the host.
func printHost(w io.Writer, host *v1alpha1.LookupHost) error {
	pods := fmt.Sprintf("%d pods are", host.Pods)
	if host.Pods == 1 {
		pods = "1 pod is"
	}
	_, err := fmt.Fprintf(w, "It is the %s namespace of the host. %s in it.\n", hostNamespaces[host.Namespace], pods)
	return err
}
