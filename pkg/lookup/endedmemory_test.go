package lookup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Everybody who may create pods can write their annotations. All that is kept of them counts.
func TestAnnotationsOfPodsThatEnded(t *testing.T) {
	const most = 100
	for name, annotate := range map[string]func(int) map[string]string{
		"a long UID of a static pod": func(i int) map[string]string {
			return map[string]string{v1.MirrorPodAnnotationKey: fmt.Sprint(i, strings.Repeat("x", maxEndedPod))}
		},
		"UIDs of static pods": func(i int) map[string]string {
			return map[string]string{v1.MirrorPodAnnotationKey: fmt.Sprint(i, strings.Repeat("x", maxEndedPod-8))}
		},
		"many addresses": func(i int) map[string]string {
			var list strings.Builder
			for k := range maxSecondary {
				fmt.Fprintf(&list, `,"%x::%x"`, i, k)
			}
			return map[string]string{networkStatus: `[{"ips":[` + list.String()[1:] + `]}]`}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnded(time.Hour, most)
			for i := range 2 * most {
				p := pod(fmt.Sprint("p", i))
				p.Annotations = annotate(i)
				e.add(journal.NewPod("api", p), time.Now())
			}
			kept := ipMemory * len(e.byIP)
			for _, p := range e.all {
				kept += len(p.reduced) + len(p.static)
			}
			if len(e.all) == 0 || kept > most*maxEndedPod {
				t.Errorf("%d pods take %d bytes", len(e.all), kept)
			}
			for len(e.all) > 0 {
				e.remove(e.all[0].uid)
			}
			if e.bytes+len(e.byUID)+len(e.byStatic)+len(e.byIP) > 0 {
				t.Errorf("what is left: %+v", e)
			}
		})
	}
}
