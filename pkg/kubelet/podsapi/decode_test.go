package podsapi

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecode(t *testing.T) {
	p := encoded(t, "a", "m", 3)
	status, err := p.status()
	if err != nil || p.name.String() != "default/a" || p.uid != "uid-of-a" || p.source != "file" || status.Message != "m" {
		t.Errorf("%+v, %+v, %v", p, status, err)
	}
	large := v1.Pod{}
	large.UID, large.Annotations = "u", map[string]string{"kubernetes.io/config.source": strings.Repeat("s", 1<<20)}
	if data, err := large.Marshal(); err != nil {
		t.Error(err)
	} else if p, err := decode(data); err != nil || p.source != "" {
		t.Errorf("a source of %d bytes is kept, %v", len(p.source), err)
	}
	for _, data := range []string{"", "\x0a", "\x0a\x05abc", "\xff\xff\xff", "\x0a\x02\x0a\x09", "\x09abc"} {
		if p, err := decode([]byte(data)); err == nil {
			t.Errorf("%q gives %+v", data, p)
		}
	}
	bad := pod{raw: []byte("\x0a\x09")}
	if _, err := bad.status(); err == nil {
		t.Error("a status that is not valid is taken")
	}
}

// FuzzDecode takes any bytes that a kubelet may send.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x0a\x05abc"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if p, err := decode(data); err == nil {
			_, _ = p.status() // any answer is right
		}
	})
}

// TestPlaceholderOfAPod from the apiserver: the kubelet has not computed its status since it started.
func TestPlaceholderOfAPod(t *testing.T) {
	status := &v1.PodStatus{StartTime: new(metav1.Unix(1, 0)), Conditions: []v1.PodCondition{{
		Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "ContainersNotReady", Message: startingMessage,
	}}}
	if !isPlaceholder(status) {
		t.Error("it replaces a status")
	}
	status.Conditions[0].Message = "containers with unready status: [c]"
	if isPlaceholder(status) {
		t.Error("a status of the kubelet replaces nothing")
	}
}
