package lookup

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/apistatus"
)

// fresh is the maximum age of the processes that an answer is made of, unless the pause between two readings is longer.
const fresh = time.Second

// inNamespace adds to the target the containers that have a process in a namespace.
func (l *Lookup) inNamespace(ctx context.Context, ns namespace, t *target) error {
	asked := time.Now()
	all, err := l.processes.since(ctx, asked.Add(-fresh), false)
	if err == nil {
		if all.host[ns.kind] == ns.inode {
			t.host = ns.kind.String()
		}
		t.hostUnknown = all.host[ns.kind] == 0 && ns.kind == netNS
		t.add(l.members(all, ns))
	}
	if err == nil && len(t.members) == 0 && t.host == "" {
		if all, err = l.processes.since(ctx, asked, true); err == nil {
			t.add(l.members(all, ns))
		}
	}
	switch {
	case err != nil:
		return err
	case len(t.members) > 0 || t.host != "":
		return nil
	case all.denied:
		return notReadable(t.what)
	}
	return notFound(t.what, "no process in a container has it")
}

// members returns the processes that still are in a namespace.
func (l *Lookup) members(all *processes, ns namespace) []process {
	return slices.DeleteFunc(slices.Clone(all.byNamespace[ns]), func(p process) bool { return !p.in(l.proc, ns) })
}

// add adds the containers of processes.
func (t *target) add(found []process) {
	for _, p := range found {
		t.members = append(t.members, p.cgroup.containers)
	}
	if len(t.members) > 0 {
		t.containers = t.members[0]
	}
}

// findMembers finds the pods of all containers of the target. For the namespace of the host, it only counts them.
func (l *Lookup) findMembers(q *Query, t *target, f *finding) {
	f.until = time.Time{}
	for _, containers := range t.members {
		one := &finding{answer: new(v1alpha1.Lookup), scope: t.scope, until: t.until}
		l.findContainer(q, containers, one)
		f.merge(one)
	}
	slices.SortFunc(f.answer.Pods, func(a, b v1alpha1.LookupPod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	host := t.host
	if t.hostUnknown && slices.ContainsFunc(f.answer.Pods, func(p v1alpha1.LookupPod) bool { return p.HostNetwork }) {
		host = netNS.String()
	}
	if host != "" {
		f.answer.Host = &v1alpha1.LookupHost{Namespace: host, Pods: len(f.answer.Pods)}
		f.answer.Pods, f.ids, f.keys = []v1alpha1.LookupPod{}, nil, nil
		l.pods.read(f.answer, func() {})
	}
}

// merge adds another finding. If it has another container of the same pod, the answer keeps the sandbox, which holds the
// namespaces of the pod, and otherwise neither.
func (f *finding) merge(one *finding) {
	if len(one.ids)+len(one.keys) > 0 && one.until.After(f.until) {
		f.until = one.until
	}
	f.ids, f.keys = append(f.ids, one.ids...), append(f.keys, one.keys...)
	if f.answer.Instance == "" {
		f.answer.Instance, f.answer.Revision = one.answer.Instance, one.answer.Revision // of the first: all have its changes
	}
	for _, p := range one.answer.Pods {
		i := slices.IndexFunc(f.answer.Pods, func(other v1alpha1.LookupPod) bool { return other.UID == p.UID })
		if i < 0 {
			f.answer.Pods = append(f.answer.Pods, p)
			continue
		}
		switch known := &f.answer.Pods[i].Container; {
		case p.Container != nil && p.Container.Sandbox:
			*known = p.Container
		case *known != nil && !(*known).Sandbox && (p.Container == nil || p.Container.ID != (*known).ID):
			*known = nil
		}
	}
}

// notReadable answers a query for a namespace that may be one of those that podconfigd may not read. It is no answer to try again
// for.
func notReadable(what string) error {
	return apistatus.New(http.StatusNotImplemented, fmt.Sprintf(
		"looking up %s: podconfigd may not read the namespaces of all processes: it needs the capability CAP_SYS_PTRACE", what))
}
