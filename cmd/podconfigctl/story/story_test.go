package story

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// facts has a file source with a manifest in each state, and the pods of those that give one.
func facts() *Facts {
	file := v1alpha1.SourceStatus{Name: "file", Seen: true, File: &v1alpha1.FileStatus{Path: "/m", Manifests: []v1alpha1.Manifest{
		{Path: "/m/bad.yaml", State: v1alpha1.ManifestRejected, Reason: "Invalid", Message: "bad.yaml:7: spec.containers: Required value"},
		{Path: "/m/held.yaml", State: v1alpha1.ManifestHeld, Namespace: "default", Name: "held-node1", UID: "held", Reason: "NotYAML", Message: "held.yaml:3: neither YAML nor JSON; its last good pod is kept"},
		{Path: "/m/other.yaml", State: v1alpha1.ManifestShadowed, Namespace: "default", Name: "web-node1", UID: "other", Reason: "Duplicate", Message: "the pod's name default/web-node1 is taken by web.yaml"},
		{Path: "/m/web.yaml", State: v1alpha1.ManifestAccepted, Namespace: "default", Name: "web-node1", UID: "web", Warnings: []string{"web.yaml:9: spec.x: unknown field"}},
	}}}
	return &Facts{
		Status: &v1alpha1.Status{NodeName: "Node1", Sources: []v1alpha1.SourceStatus{file}},
		Pods: []v1.Pod{
			pod("default", "web-node1", "web", "file"), pod("default", "held-node1", "held", "file"),
			pod("default", "twice", "t1", "api"), pod("other", "twice", "t2", "api"),
		},
	}
}

func pod(namespace, name, uid, source string) v1.Pod {
	return *podtest.Pod(name+"=i", podtest.In(namespace), podtest.UID(uid), podtest.From(source), podtest.Phase(v1.PodPending))
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"web-node1":             "default/web-node1",
		"pod/web-node1":         "default/web-node1",
		"default/web-node1":     "default/web-node1",
		"web":                   "default/web-node1",
		"default/web":           "default/web-node1",
		"bad.yaml":              "/m/bad.yaml",
		"/m/../m/bad.yaml":      "/m/bad.yaml",
		"other.yaml":            "/m/other.yaml",
		"twice":                 `"twice" is ambiguous: expected one of default/twice, other/twice`,
		"wbe":                   `pod or manifest "wbe" not found: did you mean "web"? 1 manifest is rejected: bad.yaml`,
		"bad.yml":               `pod or manifest "bad.yml" not found: did you mean "bad.yaml"? 1 manifest is rejected: bad.yaml`,
		".hidden.yaml":          `pod or manifest ".hidden.yaml" not found: files whose names begin with a dot are ignored; the source file reads /m; 1 manifest is rejected: bad.yaml`,
		"something-else":        `pod or manifest "something-else" not found: the source file reads /m; 1 manifest is rejected: bad.yaml`,
		strings.Repeat("x", 99): `pod or manifest "` + strings.Repeat("x", 99) + `" not found: the source file reads /m; 1 manifest is rejected: bad.yaml`,
	} {
		t.Run(name, func(t *testing.T) {
			subject, err := Find(name, facts())
			got := subject.String()
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// The daemon reports the manifest of a relative path as relative to a directory that is not known.
func TestFindOnARelativePath(t *testing.T) {
	f := facts()
	f.Status.Sources[0].File.Manifests[0].Path = "m/bad.yaml"
	for name, want := range map[string]bool{"/srv/m/bad.yaml": true, "m/bad.yaml": true, "./m/bad.yaml": true, "/m/bad.yaml": true, "/srv/n/bad.yaml": false, "bad.yaml": true} {
		t.Run(name, func(t *testing.T) {
			if s, err := Find(name, f); want != (err == nil && s.String() == "m/bad.yaml") {
				t.Errorf("got %v, %v", s, err)
			}
		})
	}
}

// A source that has not delivered its pods is a reason why a pod is not there.
func TestFindBeforeASourceIsSeen(t *testing.T) {
	f := facts()
	f.Status.Sources = append(f.Status.Sources, v1alpha1.SourceStatus{Name: "api", LastError: "refused", API: &v1alpha1.APIStatus{}})
	if _, err := Find("something-else", f); err == nil || !strings.HasSuffix(err.Error(), "the source api has not delivered its pods yet: refused; 1 manifest is rejected: bad.yaml") {
		t.Error(err)
	}
}

func TestStoryOfManifests(t *testing.T) {
	for name, want := range map[string]struct {
		health  v1alpha1.Health
		line    int
		summary string
		fix     string
	}{
		"bad.yaml":   {v1alpha1.Unhealthy, 7, "the manifest /m/bad.yaml is rejected: bad.yaml:7: spec.containers: Required value", "correct /m/bad.yaml:7"},
		"held.yaml":  {v1alpha1.Unhealthy, 3, "the manifest /m/held.yaml can't be used, and the pod is that of its last good version: ", "correct /m/held.yaml:3"},
		"other.yaml": {v1alpha1.Unhealthy, 0, "the manifest /m/other.yaml gives no pod: the pod's name default/web-node1 is taken by web.yaml", "rename the pod in /m/other.yaml, or remove one of the manifests"},
		"web":        {v1alpha1.Unknown, 9, "podconfigd serves the pod. Whether it runs is not known", "to see the state of containers, set --container-runtime-endpoint of podconfigd"},
		"other/twice": {
			v1alpha1.Unknown, 0, "whether the pod runs is not known: the apiserver has no status of its containers", "check that a kubelet runs on the node",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			subject, err := Find(name, f)
			if err != nil {
				t.Fatal(err)
			}
			s := Tell(subject, f)
			if s.Health != want.health || s.Line != want.line || !strings.HasPrefix(s.Summary, want.summary) || len(s.Fix) == 0 || !strings.HasPrefix(s.Fix[0], want.fix) {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// Each story of a name lists the other manifests and pods that have it.
func TestStoryOfASharedName(t *testing.T) {
	f := facts()
	mirror := pod("default", "web-node1", "mirror", "api")
	mirror.Annotations[v1.MirrorPodAnnotationKey] = "hash"
	f.Pods = append([]v1.Pod{mirror}, f.Pods...)
	f.Versions = map[string]*v1alpha1.LookupPod{"web": {Source: "file", Revision: 7}}
	s := Tell(Subject{Namespace: "default", Name: "web-node1"}, f)
	if s.Pod.UID != "web" || s.Pod.Revision != 7 || s.Path != "/m/web.yaml" || s.Source == nil || s.Source.Name != "file" || len(s.Source.File.Manifests) != 0 {
		t.Errorf("got %+v, pod %+v", s, s.Pod)
	}
	if len(s.OtherPods) != 1 || !s.OtherPods[0].Mirror || len(s.OtherManifests) != 1 || s.OtherManifests[0].Path != "/m/other.yaml" {
		t.Errorf("got others %+v, %+v", s.OtherPods, s.OtherManifests)
	}
}

// The story of a static pod says why it has no mirror pod.
func TestStoryWithoutAMirrorPod(t *testing.T) {
	problem := v1alpha1.MirrorProblem{Namespace: "default", Name: "web-node1", Message: "forbidden"}
	mirror := pod("default", "web-node1", "mirror", "api")
	mirror.Annotations[v1.MirrorPodAnnotationKey] = "hash"
	for name, test := range map[string]struct {
		mirrors *v1alpha1.MirrorStatus
		others  []v1.Pod
		want    string
	}{
		"no mirror pods":       {},
		"created":              {&v1alpha1.MirrorStatus{}, []v1.Pod{mirror}, ""},
		"of another pod":       {&v1alpha1.MirrorStatus{Problems: []v1alpha1.MirrorProblem{{Namespace: "kube-system", Name: "web-node1"}}}, nil, ""},
		"refused":              {&v1alpha1.MirrorStatus{Problems: []v1alpha1.MirrorProblem{problem}}, nil, "forbidden"},
		"update refused":       {&v1alpha1.MirrorStatus{Problems: []v1alpha1.MirrorProblem{problem}}, []v1.Pod{mirror}, "forbidden"},
		"stopped":              {&v1alpha1.MirrorStatus{Stopped: &v1alpha1.MirrorStop{Reason: "a kubelet"}}, nil, "mirror pods are stopped: a kubelet"},
		"stopped, made before": {&v1alpha1.MirrorStatus{Stopped: &v1alpha1.MirrorStop{Reason: "a kubelet"}}, []v1.Pod{mirror}, ""},
		"waiting":              {&v1alpha1.MirrorStatus{Waiting: "for the node"}, nil, "for the node"},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			f.Pods, f.Status.MirrorPods = append(test.others, f.Pods...), test.mirrors
			if got := Tell(Subject{Namespace: "default", Name: "web-node1"}, f).MirrorProblem; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The story of a manifest has its own pod, also if another source has a pod of that name.
func TestStoryOfAManifestWhoseNameIsShared(t *testing.T) {
	f := facts()
	f.Pods = append([]v1.Pod{pod("default", "web-node1", "x", "api")}, f.Pods...)
	subject, err := Find("web.yaml", f)
	if err != nil {
		t.Fatal(err)
	}
	if s := Tell(subject, f); s.Pod.UID != "web" || len(s.OtherPods) != 1 || s.OtherPods[0].UID != "x" {
		t.Errorf("got %+v and others %+v", s.Pod, s.OtherPods)
	}
}

func TestStoryOfASource(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.SourceStatus){
		"Unhealthy: the source file is degraded, and the pod is that of its last set: gone: make /m readable again": func(s *v1alpha1.SourceStatus) {
			s.Degraded, s.LastError = true, "gone"
		},
		"Unhealthy: the source file is degraded, and the pod is that of its last set: held: to apply the set that is held, run podconfigctl release file --removes=2; otherwise": func(s *v1alpha1.SourceStatus) {
			s.Degraded, s.LastError, s.Held = true, "held", &v1alpha1.HeldSet{Removes: 2}
		},
		"Progressing: the pod is from before the restart: the source file has not delivered its pods since: ": func(s *v1alpha1.SourceStatus) {
			s.Seen, s.Restored = false, true
		},
	} {
		t.Run(want, func(t *testing.T) {
			f := facts()
			change(&f.Status.Sources[0])
			s := Tell(Subject{Namespace: "default", Name: "web-node1"}, f)
			if got := string(s.Health) + ": " + s.Summary + ": " + strings.Join(s.Fix, "|"); !strings.HasPrefix(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestStoryOfARemovedPod(t *testing.T) {
	f := facts()
	f.Changes = []v1alpha1.HistoryRecord{
		{Op: v1alpha1.OpAdd, Time: new(time.Unix(1, 0))},
		{Op: v1alpha1.OpRemove, Time: new(time.Unix(2, 0)), Source: "file", File: &v1alpha1.HistoryFile{Path: "/m/gone.yaml"}},
	}
	s := Tell(Subject{Namespace: "default", Name: "gone"}, f)
	if s.Health != v1alpha1.Unhealthy || !strings.HasPrefix(s.Summary, "no source has the pod: the source file removed it at ") || !strings.Contains(s.Fix[0], "/m/gone.yaml") {
		t.Errorf("got %+v", s)
	}
}

func TestStoryOfContainers(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	for want, change := range map[string]func(*Facts, *v1.Pod){
		"Healthy: all containers run and are ready": func(_ *Facts, p *v1.Pod) {
			p.Status.Phase = v1.PodRunning
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: running, Ready: true}}
		},
		"Unknown: the state of the pod is not known since 2026-11-26 08:00:00: the container runtime lists it, and does not describe it. Its status is of before: check the container runtime at unix:///r": func(f *Facts, p *v1.Pod) {
			p.Status.Phase = v1.PodRunning
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: running, Ready: true}}
			since := time.Date(2026, 11, 26, 8, 0, 0, 0, time.Local)
			f.Status.Runtime = &v1alpha1.RuntimeStatus{Healthy: true, Endpoint: "unix:///r", Uninspected: 1, UninspectedSince: &since}
			f.Runtime = &v1alpha1.RuntimePods{Pods: []v1alpha1.RuntimePod{{UID: string(p.UID), UninspectedSince: &since}}}
		},
		"Healthy: the pod completed": func(_ *Facts, p *v1.Pod) { p.Status.Phase = v1.PodSucceeded },
		"Progressing: the pod runs, and is not ready: containers with unready status: [c]": func(_ *Facts, p *v1.Pod) {
			p.Status.Phase = v1.PodRunning
			p.Status.Conditions = []v1.PodCondition{{Type: v1.ContainersReady, Message: "containers with unready status: [c]"}}
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: running}}
		},
		"Unhealthy: the container c waits: CrashLoopBackOff: back-off 5m: to read its log, run crictl logs 1234": func(_ *Facts, p *v1.Pod) {
			p.Status.Phase = v1.PodRunning
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", ContainerID: "containerd://1234", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m"}}}}
		},
		"Unhealthy: the container c ended with the exit code 3: Error": func(_ *Facts, p *v1.Pod) {
			p.Status.Phase = v1.PodRunning
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}}}
		},
		"Unhealthy: the pod failed: Evicted: no memory: container c ended with the exit code 137": func(_ *Facts, p *v1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = v1.PodFailed, "Evicted", "no memory"
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 137}}}}
		},
		"Progressing: the pod is being deleted, until ": func(_ *Facts, p *v1.Pod) { p.DeletionTimestamp = new(metav1.Unix(1, 0)) },
		"Progressing: nothing has started the pod: the container runtime has no sandbox of it: check that the agent": func(f *Facts, _ *v1.Pod) {
			f.Status.Runtime, f.Runtime = &v1alpha1.RuntimeStatus{Healthy: true}, &v1alpha1.RuntimePods{}
		},
		"Progressing: the pod is starting: Pending": func(f *Facts, _ *v1.Pod) {
			f.Status.Runtime = &v1alpha1.RuntimeStatus{Healthy: true}
			f.Runtime = &v1alpha1.RuntimePods{Pods: []v1alpha1.RuntimePod{{UID: "web", CreatedAt: new(time.Unix(1, 0))}}}
		},
		"Unknown: the container runtime does not answer: refused: check the container runtime at unix:///c": func(f *Facts, _ *v1.Pod) {
			f.Status.Runtime = &v1alpha1.RuntimeStatus{Endpoint: "unix:///c", LastError: "refused"}
		},
	} {
		t.Run(want, func(t *testing.T) {
			f := facts()
			change(f, &f.Pods[0])
			s := Tell(Subject{Namespace: "default", Name: "web-node1"}, f)
			if got := string(s.Health) + ": " + s.Summary + ": " + strings.Join(s.Fix, "|"); !strings.HasPrefix(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// What only the kubelet knows comes with what to do about it.
func TestStoryOfWhatTheKubeletKnows(t *testing.T) {
	waiting := func(reason, message string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.Phase = v1.PodPending
			p.Status.ContainerStatuses = []v1.ContainerStatus{{
				Name: "c", ContainerID: "containerd://1234", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}},
			}}
		}
	}
	failed := func(reason, message string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Status.Phase, p.Status.Reason, p.Status.Message = v1.PodFailed, reason, message }
	}
	for want, change := range map[string]func(*v1.Pod){
		"the container c waits: CrashLoopBackOff: back-off 40s restarting failed container=c; its last attempt ended with the exit code 3: Error: " +
			"to read its log, run crictl logs 1234|correct why it ends; the kubelet starts it again after the back-off, or at once if the manifest changes": func(p *v1.Pod) {
			waiting("CrashLoopBackOff", "back-off 40s restarting failed container=c")(p)
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}
		},
		"the container c waits: ErrImagePull: not found: check that the node can pull the image i: its name, the registry, and imagePullSecrets":          waiting("ErrImagePull", "not found"),
		"the container c waits: ErrImageNeverPull: load the image i onto the node, or change imagePullPolicy of the container":                            waiting("ErrImageNeverPull", ""),
		"the container c waits: InvalidImageName: correct the name of the image i":                                                                        waiting("InvalidImageName", ""),
		"the container c waits: CreateContainerConfigError: no configmap: create what the message names, or correct the reference to it in the pod":       waiting("CreateContainerConfigError", "no configmap"),
		"the container c waits: RunContainerError: to read its log, run crictl logs 1234":                                                                 waiting("RunContainerError", ""),
		"the pod failed: Evicted: too large: make the pod use less of what the message names, or raise its limit; the pod does not start again by itself": failed("Evicted", "too large"),
		"the pod failed: DeadlineExceeded: Pod was active on the node longer than: raise activeDeadlineSeconds of the pod, or make it end earlier":        failed("DeadlineExceeded", "Pod was active on the node longer than"),
	} {
		t.Run(want, func(t *testing.T) {
			f := facts()
			f.Versions = map[string]*v1alpha1.LookupPod{"web": {Source: "file", Revision: 7, StatusBy: "kubelet"}}
			f.Pods[0].Spec.Containers[0].Image = "i"
			change(&f.Pods[0])
			s := Tell(Subject{Namespace: "default", Name: "web-node1"}, f)
			if got := s.Summary + ": " + strings.Join(s.Fix, "|"); got != want || s.Health != v1alpha1.Unhealthy || s.Pod.StatusBy != "kubelet" {
				t.Errorf("got %s: %s, by %q\nwant %s", s.Health, got, s.Pod.StatusBy, want)
			}
		})
	}
}

// A command can be copied to a shell, whatever the name of the file is.
func TestCommandsAreQuoted(t *testing.T) {
	f := facts()
	f.Status.Sources[0].File.Manifests[0].Path = "/m/it's; reboot.yaml"
	s := Tell(Subject{Manifest: &f.Status.Sources[0].File.Manifests[0], Source: "file"}, f)
	if want := `run podconfigctl validate '/m/it'\''s; reboot.yaml'`; !strings.HasSuffix(s.Fix[len(s.Fix)-1], want) {
		t.Errorf("got %q, want %s", s.Fix, want)
	}
}

// A name finds a file also without its extension. A pod of that name comes first.
func TestFindAFileWithoutItsExtension(t *testing.T) {
	f := &Facts{Status: &v1alpha1.Status{NodeName: "node1", Sources: []v1alpha1.SourceStatus{{Name: "file", File: &v1alpha1.FileStatus{Path: "/m", Manifests: []v1alpha1.Manifest{
		{Path: "/m/dep.yaml", State: v1alpha1.ManifestIgnored},
		{Path: "/m/web.yaml", State: v1alpha1.ManifestAccepted, Namespace: "default", Name: "shop-node1", UID: "1"},
		{Path: "/m/shop.yaml", State: v1alpha1.ManifestRejected},
	}}}}}}
	for name, want := range map[string]string{
		"dep": "/m/dep.yaml", "dep.yaml": "/m/dep.yaml", "web": "/m/web.yaml", "shop": "default/shop-node1", "shop.yaml": "/m/shop.yaml",
	} {
		if got, err := Find(name, f); err != nil || got.String() != want {
			t.Errorf("%s finds %v, %v, want %s", name, got, err, want)
		}
	}
}
