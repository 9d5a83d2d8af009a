package status

import (
	"fmt"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/cli"
)

// shownUnknown is the number of names in the status. --output=json has more.
const shownUnknown = 5

// addPodsAPI adds the connection to the kubelet's Pods API.
func addPodsAPI(p *page, a *v1alpha1.KubeletPodsAPI) {
	if a.Connected {
		p.label(normal, "Pods API:", fmt.Sprintf("%s, for %s: the status of %d of %d pods is by the kubelet", a.Socket, cli.Age(a.Since), a.Statuses, a.Pods))
	} else {
		p.label(bad, "Pods API:", fmt.Sprintf("%s does not answer, for %s; the last status of %d pods stands: %s", a.Socket, cli.Age(a.Since), a.Statuses, a.LastError))
	}
	if len(a.UnknownToKubelet) > 0 {
		p.label(warning, "", "the kubelet does not have "+someOf(a.UnknownToKubelet))
	}
	if len(a.UnknownToSources) > 0 {
		p.label(warning, "", "the kubelet has, and no source does: "+someOf(a.UnknownToSources))
	}
}

// someOf lists the first names, and counts the others.
func someOf(names []string) string {
	if n := len(names) - shownUnknown; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownUnknown], ", "), n)
	}
	return strings.Join(names, ", ")
}

// statusBy says by whom the status of a pod is.
func statusBy(by string) string {
	text := map[string]string{
		"kubelet": ", by the kubelet", "kubeletBefore": ", by the kubelet, which is away", "mirrorPod": ", by the kubelet, in the mirror pod",
		"runtime": ", by the container runtime",
	}
	return text[by]
}
