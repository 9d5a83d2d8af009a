package lookup

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// logFile is what the path of a log names: a container of a pod, or the link to its log.
type logFile struct {
	pod types.NamespacedName
	// uid is the UID of the pod; empty for a link.
	uid       types.UID
	container string
	// restarts is the number of earlier containers with the same name.
	restarts int
	// id is the ID of the container, if a link has it.
	id string
}

var (
	// podLog matches the log of a container, also one that was rotated: NUMBER.log.TIME or NUMBER.log.TIME.gz. The directory
	// is the podLogsDir of the kubelet, or where a log agent has it.
	//
	// kubelet: pkg/kubelet/kuberuntime/helpers.go BuildPodLogsDirectory, buildContainerLogsPath;
	// pkg/kubelet/logs/container_log_manager.go.
	podLog = regexp.MustCompile(`(?:^|/)([^/_]+)_([^/_]+)_([^/]+)/([^/]+)/([0-9]{1,9})\.log(?:\.[^/]*)?$`)
	// linkToLog matches a link to the log of a container. The kubelet cuts long names, with the ID at their end.
	//
	// kubelet: pkg/kubelet/kuberuntime/legacy.go logSymlink.
	linkToLog = regexp.MustCompile(`(?:^|/)([^/_]+)_([^/_]+)_[^/]+?(?:-([0-9a-f]{64}))?\.log$`)
)

// parseLog parses the path of a log. It returns nil if it is none.
func parseLog(path string) *logFile {
	if m := podLog.FindStringSubmatch(path); m != nil {
		restarts, err := strconv.Atoi(m[5])
		if err != nil {
			return nil
		}
		return &logFile{pod: types.NamespacedName{Namespace: m[1], Name: m[2]}, uid: types.UID(m[3]), container: m[4], restarts: restarts}
	}
	if m := linkToLog.FindStringSubmatch(path); m != nil {
		return &logFile{pod: types.NamespacedName{Namespace: m[2], Name: m[1]}, id: m[3]}
	}
	return nil
}

func (q *Query) checkLogPath() error {
	if len(q.LogPath) > maxPath {
		return fmt.Errorf("expected at most %d characters, got %d", maxPath, len(q.LogPath))
	}
	if parseLog(q.LogPath) == nil {
		return fmt.Errorf("%q is not the log of a container: expected /var/log/pods/NAMESPACE_NAME_UID/CONTAINER/NUMBER.log, or a link in /var/log/containers",
			printable.Cut(q.LogPath, maxQuoted))
	}
	return nil
}

// withLog adds to the target the container whose log has a path. It reads only links of the directory of links.
func (l *Lookup) withLog(path string, t *target) error {
	t.log = parseLog(path)
	if t.log.uid == "" {
		link, err := os.Readlink(filepath.Join(l.logLinks, filepath.Base(path)))
		if linked := parseLog(link); err == nil && linked != nil && linked.uid != "" && linked.pod == t.log.pod {
			linked.id = t.log.id
			t.log = linked
		} else if t.log.id == "" {
			return notFound(t.what, fmt.Sprintf("its name has no ID of a container, and %s has no link with this name to the log of such a pod", l.logLinks))
		}
	}
	if t.uid = t.log.uid; t.uid == "" {
		t.containers = []CgroupContainer{{ID: t.log.id}}
	}
	return nil
}

// findLog finds the container of a log, or the pod with what the path says about the container.
func (l *Lookup) findLog(q *Query, log *logFile, f *finding) {
	if log.id != "" {
		if l.findContainer(q, []CgroupContainer{{ID: log.id}}, f); len(f.answer.Pods) > 0 || log.uid == "" {
			return
		}
		f.ids = nil
	}
	l.findUID(q, log.uid, log.pod.String(), f)
	// A manifest can have the UID of another pod.
	f.answer.Pods = slices.DeleteFunc(f.answer.Pods, func(p v1alpha1.LookupPod) bool {
		return p.Namespace != log.pod.Namespace || p.Name != log.pod.Name
	})
	for i := range f.answer.Pods {
		p := &f.answer.Pods[i]
		var older bool
		if p.Container, older = l.ofLog(log); p.Container == nil && p.Ended != nil {
			p.Container = l.pods.lastOfLog(log)
		}
		if p.Container == nil {
			p.Container = &v1alpha1.LookupContainer{Name: log.container, Restarts: log.restarts}
			if l.runtime != nil && p.Ended == nil && !older {
				f.ids = append(f.ids, string(log.uid))
			}
		}
	}
}

// ofLog returns the container of a log as the runtime has it, or had it, or nil. It is older if the runtime has only later ones with
// its name.
func (l *Lookup) ofLog(log *logFile) (found *v1alpha1.LookupContainer, older bool) {
	if l.runtime == nil {
		return nil, false
	}
	removed, ok := l.runtime.FindRemoved(log.uid, log.container, uint32(log.restarts))
	if ok && removed.Namespace == log.pod.Namespace && removed.Name == log.pod.Name {
		found = container(&removed)
	}
	pod, _ := l.runtime.Pod(log.uid)
	if pod == nil || pod.Namespace != log.pod.Namespace || pod.Name != log.pod.Name {
		return found, false
	}
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if c.Sandbox || c.Name != log.container {
			continue
		}
		recorded, ok := l.runtime.FindContainer(c.ID)
		if ok && int(c.Attempt) == log.restarts {
			return container(&recorded), false
		}
		older = older || int(c.Attempt) > log.restarts
	}
	return found, older
}

// unknownLog says why the pod of a log is not known.
func unknownLog(log *logFile) string {
	if log.uid == "" {
		return "the container runtime does not have its container " + log.id
	}
	return fmt.Sprintf("no pod %s with UID %s is known", log.pod, log.uid)
}
