package lookup

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// CgroupContainer is a container that a cgroup names.
type CgroupContainer struct {
	// ID is the ID of the container or sandbox; empty for a cgroup of a pod that is in none of its containers.
	ID string
	// PodUID is the UID of the pod; empty if the cgroup does not name it.
	PodUID types.UID
}

var (
	// podSlice matches the cgroup of a pod with the kubelet's systemd driver, podDirectory with its cgroupfs driver. The
	// directory is below one whose name ends in kubepods. A daemon in its own cgroup namespace may not see that one: then
	// podNamespaced also has to match, which accepts only the UIDs that Kubernetes makes.
	//
	// kubelet: pkg/kubelet/cm/pod_container_manager_linux.go GetPodContainerName,
	// pkg/kubelet/cm/cgroup_manager_linux.go ToSystemd.
	podSlice     = regexp.MustCompile(`kubepods(?:-[^-]+)?-pod([^.]+)\.slice$`)
	podDirectory = regexp.MustCompile(`^pod([^.]+)$`)

	podNamespaced = regexp.MustCompile(`^pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$`)
)

// ParseCgroup returns the containers that a cgroup names, the outermost first. There are several if a container runs
// containers itself. It accepts a path, and the lines of /proc/PID/cgroup. The monitor of a container is not in it, so its cgroup
// names the container only if nothing else does.
func ParseCgroup(s string) []CgroupContainer {
	if found := parseCgroup(s, false); len(found) > 0 {
		return found
	}
	return parseCgroup(s, true)
}

func parseCgroup(s string, monitors bool) []CgroupContainer {
	var best []CgroupContainer
	before := "" // of cgroup v1, most lines have the same path
	for line := range strings.Lines(s) {
		// cgroups(7): a zombie can be in a cgroup that was removed.
		path := strings.TrimSuffix(strings.TrimSpace(line), " (deleted)")
		_, after, _ := strings.Cut(path, ":/")
		if after != "" && after == before {
			continue
		}
		before = after
		if found := parseCgroupPath(path, monitors); rank(found) > rank(best) {
			best = found
		}
	}
	return best
}

// rank orders what the lines of a process name. With cgroup v1, only some controllers may have the process in a cgroup of its
// container.
func rank(found []CgroupContainer) int {
	best := 0
	for _, c := range found {
		switch {
		case c.ID != "" && c.PodUID != "":
			return 3
		case c.ID != "":
			best = max(best, 2)
		default:
			best = max(best, 1)
		}
	}
	return best
}

func parseCgroupPath(path string, monitors bool) []CgroupContainer {
	var found []CgroupContainer
	var pod types.UID
	kubepods := false
	// containerd joins slice and container by colons if its driver is not that of the
	// kubelet.
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == ':' }) {
		kubepods = kubepods || strings.HasSuffix(name, "kubepods")
		if uid, ok := podOfSlice(name); ok {
			pod = uid
			continue
		}
		if uid, ok := podOfDirectory(name, kubepods); ok {
			pod, kubepods = uid, false
			continue
		}
		runtime, id := containerCgroup(name)
		if id == "" || strings.HasSuffix(runtime, "conmon") && !monitors { // the monitor that CRI-O starts for a container
			continue
		}
		found = append(found, CgroupContainer{id, pod})
		pod = "" // what follows is in the container
	}
	if pod != "" {
		found = append(found, CgroupContainer{PodUID: pod})
	}
	return found
}

// podOfSlice returns the pod whose cgroup has a name, with the systemd driver. Most cgroups of other names are told by their ends:
// the regular expressions take long.
func podOfSlice(name string) (uid types.UID, ok bool) {
	if !strings.HasSuffix(name, ".slice") {
		return "", false
	}
	m := podSlice.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return types.UID(strings.ReplaceAll(m[1], "_", "-")), true
}

// podOfDirectory returns the pod whose cgroup has a name, with the cgroupfs driver. kubepods is true below a cgroup whose name ends
// in kubepods.
func podOfDirectory(name string, kubepods bool) (uid types.UID, ok bool) {
	if !strings.HasPrefix(name, "pod") {
		return "", false
	}
	m := podDirectory.FindStringSubmatch(name)
	if m == nil || !kubepods && !podNamespaced.MatchString(name) {
		return "", false
	}
	return types.UID(m[1]), true
}

// containerCgroup returns the ID of the container whose cgroup has a name, and the name of the runtime before it. The ".scope" of
// systemd can be after it. The ID is empty if the name is that of no container.
func containerCgroup(name string) (runtime, id string) {
	name = strings.TrimSuffix(name, ".scope")
	const length = 64
	at := len(name) - length
	if at < 0 || strings.Trim(name[at:], "0123456789abcdef") != "" {
		return "", ""
	}
	if at == 0 {
		return "", name
	}
	if c := name[at-1]; c != '-' && c != '_' {
		return "", ""
	}
	return name[:at-1], name[at:]
}
