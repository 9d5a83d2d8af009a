package live

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// rounds is how often each lookup is made. patience is how long each may wait for what is known already.
const (
	rounds   = 10
	patience = time.Minute
)

// stories asks for the status of each pod, and of the daemon, on the command line.
func (w *world) stories(t *testing.T, theirs map[string]*v1.Pod) {
	t.Helper()
	status := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), w.ctl, append([]string{"status", "--socket", filepath.Join(w.dir, "s")}, args...)...)
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) { // other UIDs are an error too
			t.Fatal(err)
		}
		return string(out)
	}
	for name, pod := range theirs {
		testutil.Eventually(t, func() error { // a kubelet without a Pods API writes Ready to the mirror pod a while later
			if text := status(pod.Namespace + "/" + name); !strings.Contains(text, "Healthy") || !strings.Contains(text, string(pod.UID)) {
				return fmt.Errorf("status %s says:\n%s", name, text)
			}
			return nil
		})
	}
	t.Logf("status says:\n%s", status())
}

var podOfCgroup = regexp.MustCompile(`/pod([0-9a-f-]+)/`)

// cgroups matches each container to its pod by the cgroup, as an agent does that has the pods of podconfigd.
func (w *world) cgroups(t *testing.T) {
	t.Helper()
	ours, err := w.static(t)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	for i := range ours {
		uid := string(ours[i].UID)
		names[uid] = ours[i].Name
		if hash := ours[i].Annotations["kubernetes.io/config.hash"]; hash != "" && hash != uid {
			t.Errorf("the config.hash of %s is %s, its UID %s", ours[i].Name, hash, uid)
		}
	}
	matched := make(map[string]bool)
	for _, c := range w.running(t) {
		path, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", w.runtime.PID(t, c.GetId())))
		if err != nil {
			t.Fatal(err)
		}
		match := podOfCgroup.FindSubmatch(path)
		name := c.GetLabels()["io.kubernetes.pod.name"]
		if len(match) == 0 || names[string(match[1])] != name {
			t.Errorf("no pod has the cgroup of %s: %s", name, path)
			continue
		}
		matched[name] = true
	}
	t.Logf("%d of %d pods match a cgroup", len(matched), len(pods))
	if len(matched) != len(pods) {
		t.Errorf("only %v match", slices.Collect(maps.Keys(matched)))
	}
}

// lookups looks each container up in each way, as agents do.
func (w *world) lookups(t *testing.T, theirs map[string]*v1.Pod) {
	t.Helper()
	type lookup struct {
		name  string
		query client.LookupQuery
	}
	ours, err := w.static(t)
	if err != nil {
		t.Fatal(err)
	}
	ips := make(map[string]string)
	for i := range ours {
		ips[ours[i].Name] = ours[i].Status.PodIP
	}
	var all []lookup
	for _, c := range w.running(t) {
		pid := w.runtime.PID(t, c.GetId())
		cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			t.Fatal(err)
		}
		name := c.GetLabels()["io.kubernetes.pod.name"]
		for _, query := range []client.LookupQuery{
			{PID: pid}, {ContainerID: c.GetId()}, {Cgroup: string(cgroup)}, {ContainerID: c.GetPodSandboxId()},
			{PodUID: string(theirs[name].UID)}, {PodIP: ips[name]},
		} {
			query.Wait = patience
			all = append(all, lookup{name, query})
		}
	}
	var took []time.Duration
	for range rounds {
		for _, l := range all {
			begin := time.Now()
			answer, err := w.client.Lookup(t.Context(), l.query)
			took = append(took, time.Since(begin))
			if err != nil || !finds(answer, theirs[l.name], l.query.PodIP != "") {
				t.Fatalf("looking up %s by %+v: %+v, %v", l.name, l.query, answer, err)
			}
			if took[len(took)-1] >= patience {
				t.Fatalf("looking up %s by %+v waited for what is known", l.name, l.query)
			}
		}
	}
	slices.Sort(took)
	t.Logf("%d waiting lookups: median %v, p99 %v, slowest %v", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
}

// finds reports whether a lookup found the pod, with its source and labels. An IP of the node finds others too.
func finds(answer *v1alpha1.Lookup, pod *v1.Pod, others bool) bool {
	return (others || len(answer.Pods) == 1) && slices.ContainsFunc(answer.Pods, func(p v1alpha1.LookupPod) bool {
		return p.Namespace == pod.Namespace && p.Name == pod.Name && p.UID == string(pod.UID) && p.Source == "file" && maps.Equal(p.Labels, pod.Labels)
	})
}

// restart ends the container of a pod. The subscriber sees the PLEG of its end and of the start of the next one, and the
// RECONCILE of that, under the UID of the kubelet.
func (w *world) restart(t *testing.T, pod *v1.Pod) {
	t.Helper()
	ids, err := containers(pod)
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	seen := len(w.lines())
	if err := syscall.Kill(w.runtime.PID(t, ids[0]), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	testutil.Eventually(t, func() error {
		got := make(map[string]bool)
		for _, l := range w.lines()[seen:] {
			for _, p := range l.update.Pods {
				if p.UID == pod.UID {
					got[sign(l.update, p, ids[0])] = true
				}
			}
		}
		for _, what := range []string{"ContainerDied", "ContainerStarted", "RECONCILE"} {
			if !got[what] {
				return fmt.Errorf("the subscriber saw only %v of the restart of %s", got, pod.Name)
			}
		}
		return nil
	})
	t.Logf("the subscriber saw PLEG and RECONCILE of a restart within %v", time.Since(began).Round(time.Millisecond))
}

// sign returns what an update says about the restart of a container; empty for nothing.
func sign(u *v1alpha1.Update, pod *v1.Pod, died string) string {
	switch {
	case u.Op == v1alpha1.OpPLEG && u.Event.Container != "" && (u.Event.ContainerID == died) == (u.Event.Type == "ContainerDied"):
		return u.Event.Type
	case u.Op == v1alpha1.OpReconcile:
		if ids, err := containers(pod); err == nil && ids[0] != died && pod.Status.ContainerStatuses[0].RestartCount > 0 {
			return string(u.Op)
		}
	}
	return ""
}
