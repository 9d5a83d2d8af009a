package podstatus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestKubelet compares the statuses with those that a kubelet showed of eleven pods over
// their lives, field by field. It walks each life in order, with the own status before as
// the status before, and then each state on its own, as after a restart without a state
// directory. What differs is in the table of differences. Each difference has to occur, and
// is a row in docs/explanation/kubelet-differences.md.
func TestKubelet(t *testing.T) {
	occurred := map[string]bool{}
	lives := recordedLives(t)
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		var life comparison
		for n := range lives[name] {
			life.next(t, name, n+1, &lives[name][n], occurred)
		}
		for n := range lives[name] {
			alone := comparison{alone: true}
			alone.next(t, name, n+1, &lives[name][n], occurred)
		}
	}
	for _, d := range differences {
		if !occurred[d.name] {
			t.Errorf("the difference %q never occurs", d.name)
		}
	}
}

// state is a line of testdata: what a kubelet showed of a pod, and what the runtime reported
// at that moment.
type state struct {
	Time time.Time `json:"time"`
	Gone bool      `json:"gone"`
	Pod  *v1.Pod   `json:"pod"`
	CRI  struct {
		Sandboxes  []json.RawMessage `json:"sandboxes"`
		Containers []json.RawMessage `json:"containers"`
	} `json:"cri"`
}

func recordedLives(t *testing.T) map[string][]state {
	t.Helper()
	lives := map[string][]state{}
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) != 11 {
		t.Fatalf("testdata has %d lives, want 11: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		for line := range bytes.Lines(data) {
			var s state
			if err := json.Unmarshal(line, &s); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			lives[name] = append(lives[name], s)
		}
	}
	return lives
}

func (s *state) record(t *testing.T) *Record {
	t.Helper()
	return &Record{
		Sandboxes:  messages[runtimeapi.PodSandboxStatus](t, s.CRI.Sandboxes),
		Containers: messages[runtimeapi.ContainerStatus](t, s.CRI.Containers),
	}
}

func messages[T any, P interface {
	*T
	proto.Message
}](t *testing.T, encoded []json.RawMessage) (decoded []P) {
	t.Helper()
	for _, data := range encoded {
		message := P(new(T))
		// The states were recorded before CRI prefixed the names of signals.
		data = bytes.ReplaceAll(data, []byte(`"stopSignal":"SIG`), []byte(`"stopSignal":"SIGNAL_SIG`))
		if err := protojson.Unmarshal(data, message); err != nil {
			t.Fatal(err)
		}
		decoded = append(decoded, message)
	}
	return decoded
}

var testNode = Node{Runtime: "containerd", IPs: []string{"10.0.0.1", "fd00::1"}}

// comparison walks a life.
type comparison struct {
	// alone is set if there never is a status before.
	alone bool

	name        string
	n           int
	state       *state
	kubelet     *v1.PodStatus
	ours        *v1.PodStatus
	before      time.Time
	firstStart  time.Time
	kubeletUID  string
	ourPrevious *v1.PodStatus
}

func (c *comparison) next(t *testing.T, name string, n int, s *state, occurred map[string]bool) {
	t.Helper()
	if s.Gone {
		// The kubelet has forgotten the pod, and so has podconfigd.
		c.ourPrevious = nil
		return
	}
	c.name, c.n, c.state, c.kubelet = name, n, s, &s.Pod.Status
	pod := s.Pod.DeepCopy()
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
	if c.ourPrevious == nil || c.kubeletUID != string(pod.UID) {
		c.ourPrevious, c.before, c.firstStart = nil, time.Time{}, c.kubelet.StartTime.Time
	}
	c.kubeletUID = string(pod.UID)
	in := Input{Pod: pod, Record: s.record(t), Previous: c.ourPrevious, Node: testNode, Now: s.Time}
	c.ours = Generate(in)

	for path, values := range diff(c.kubelet, c.ours) {
		d := c.difference(path, values)
		if d == "" {
			t.Errorf("%s %d: %s: the kubelet has %s, want the same, got %s", name, n, path, values[0], values[1])
		}
		occurred[d] = true
	}
	in.Previous = c.ours
	if again := Generate(in); !reflect.DeepEqual(c.ours, again) {
		t.Errorf("%s %d: a second status of the same state differs: %v", name, n, diff(c.ours, again))
	}
	c.ourPrevious, c.before = c.ours, s.Time
}

// difference returns the name of the difference that a path belongs to.
func (c *comparison) difference(path string, values [2]string) string {
	for _, d := range differences {
		if d.path.MatchString(path) && d.isExpected(c, path, values) {
			return d.name
		}
	}
	return ""
}

// kubeletRestarted reports whether the kubelet restarted during the life of the pod. It then
// counts all times from its restart.
func (c *comparison) kubeletRestarted() bool {
	return c.kubelet.StartTime.Sub(c.firstStart) > time.Minute
}

// container returns the container with the index in the path.
func (c *comparison) container(path string) (spec v1.Container, kubelet, ours v1.ContainerStatus) {
	index, _ := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(path))
	return c.state.Pod.Spec.Containers[index], c.kubelet.ContainerStatuses[index], c.ours.ContainerStatuses[index]
}

func (c *comparison) hasProbes() bool {
	return c.state.Pod.Spec.Containers[0].ReadinessProbe != nil
}

var differences = []struct {
	name       string
	path       *regexp.Regexp
	isExpected func(c *comparison, path string, values [2]string) bool
}{
	{
		"a kubelet without an apiserver sets no addresses",
		regexp.MustCompile(`^\.(host|pod)IPs?(\[|$)`),
		func(c *comparison, _ string, values [2]string) bool {
			return values[0] == "null" && c.ours.HostIP == "10.0.0.1" && c.ours.PodIP == "10.0.0.1" &&
				len(c.ours.HostIPs) == 2 && len(c.ours.PodIPs) == 2
		},
	},
	{
		"why an image can't be had is not known",
		regexp.MustCompile(`^\.containerStatuses\[\d\]\.state\.waiting\.(reason|message)$`),
		func(c *comparison, path string, _ [2]string) bool {
			_, kubelet, ours := c.container(path)
			return slices.Contains([]string{"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff"}, kubelet.State.Waiting.Reason) &&
				reflect.DeepEqual(ours.State, v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}})
		},
	},
	{
		"CrashLoopBackOff is not known, the container has ended",
		regexp.MustCompile(`^\.containerStatuses\[\d\]\.(state|lastState)\.`),
		func(c *comparison, path string, _ [2]string) bool {
			_, kubelet, ours := c.container(path)
			return kubelet.State.Waiting != nil && kubelet.State.Waiting.Reason == "CrashLoopBackOff" &&
				reflect.DeepEqual(kubelet.LastTerminationState, ours.State)
		},
	},
	{
		"the results of probes are not known",
		regexp.MustCompile(`^\.containerStatuses\[\d\]\.(ready|started)$`),
		func(c *comparison, path string, values [2]string) bool {
			spec, _, _ := c.container(path)
			return values == [2]string{"true", "false"} &&
				(spec.StartupProbe != nil || spec.ReadinessProbe != nil && strings.HasSuffix(path, "ready"))
		},
	},
	{
		"conditions say that the results of probes are not known",
		regexp.MustCompile(`^\.conditions\[[23]\]\.(status|reason|message|lastTransitionTime)$`),
		func(c *comparison, _ string, _ [2]string) bool {
			return c.hasProbes() && slices.ContainsFunc(c.ours.Conditions, func(condition v1.PodCondition) bool {
				return condition.Message == "containers with unready status: [c], containers whose probe results are not known here: [c]"
			})
		},
	},
	{
		"the runtime was asked after the kubelet",
		regexp.MustCompile(`^\.(conditions\[[23]\]\.message|containerStatuses\[1\]\..*)$`),
		func(c *comparison, _ string, _ [2]string) bool { return c.name == "noimage" && c.n == 1 },
	},
	{
		"the reason and the message of PodReadyToStartContainers are new in 1.37",
		regexp.MustCompile(`^\.conditions\[0\]\.(reason|message)$`),
		func(c *comparison, _ string, values [2]string) bool {
			condition := c.ours.Conditions[0]
			return values[0] == "null" && condition.Type == v1.PodReadyToStartContainers && condition.Reason == podSandboxNotReady
		},
	},
	{
		"the kubelet counts from its restart",
		regexp.MustCompile(`^\.(startTime|conditions\[\d\]\.lastTransitionTime)$`),
		func(c *comparison, _ string, values [2]string) bool {
			return (c.kubeletRestarted() || c.alone) && instant(values[0]).Compare(c.kubelet.StartTime.Time) >= 0
		},
	},
	{
		"the attempt before has been removed from the runtime, and there is no status before",
		regexp.MustCompile(`^\.containerStatuses\[\d\]\.lastState\.`),
		func(c *comparison, path string, values [2]string) bool {
			_, _, ours := c.container(path)
			return c.alone && len(c.state.CRI.Containers) == 1 && ours.LastTerminationState == v1.ContainerState{}
		},
	},
	{
		// Now is when the state was recorded, half a second after the one before. The
		// kubelet's time lies between them, or shortly before the first.
		"the kubelet has its own clock",
		regexp.MustCompile(`^\.conditions\[\d\]\.lastTransitionTime$`),
		func(c *comparison, path string, values [2]string) bool {
			kubelet, ours := instant(values[0]), instant(values[1])
			late := ours.Sub(kubelet)
			missed := kubelet.After(c.before.Add(-time.Second)) && !kubelet.After(c.state.Time)
			return late > 0 && late <= 2*time.Second || missed
		},
	},
}

func instant(encoded string) time.Time {
	t, _ := time.Parse(`"`+time.RFC3339+`"`, encoded)
	return t
}

// diff returns the paths at which two values differ, with the JSON at each.
func diff(a, b any) map[string][2]string {
	flat := [2]map[string]string{{}, {}}
	for i, value := range []any{a, b} {
		data, _ := json.Marshal(value)
		var decoded any
		_ = json.Unmarshal(data, &decoded)
		flatten("", decoded, flat[i])
	}
	found := map[string][2]string{}
	for _, side := range flat {
		for path := range side {
			values := [2]string{"null", "null"}
			for i := range values {
				if value, ok := flat[i][path]; ok {
					values[i] = value
				}
			}
			if values[0] != values[1] {
				found[path] = values
			}
		}
	}
	return found
}

func flatten(path string, value any, into map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			flatten(path+"."+key, member, into)
		}
		if len(value) > 0 || strings.HasSuffix(path, "lastState") {
			return
		}
	case []any:
		for i, item := range value {
			flatten(fmt.Sprintf("%s[%d]", path, i), item, into)
		}
		if len(value) > 0 {
			return
		}
	}
	data, _ := json.Marshal(value)
	into[path] = string(data)
}
