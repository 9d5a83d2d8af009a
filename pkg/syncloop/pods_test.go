package syncloop

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

func TestPodsOfSeveralSources(t *testing.T) {
	m := newPodManager()
	take := func(op config.PodOperation, source string, uids ...string) {
		u := config.PodUpdate{Op: op, Source: source}
		for _, uid := range uids {
			u.Pods = append(u.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: types.UID(uid), Labels: map[string]string{"of": source}}})
		}
		m.applyUpdate(u)
	}
	expect := func(uid, source string, named int) {
		t.Helper()
		pod, there := m.get(types.UID(uid))
		if there != (source != "") || (there && pod.Labels["of"] != source) {
			t.Errorf("%s is %v, want the one of %q", uid, pod, source)
		}
		if got := m.named("n", "p"); len(got) != named {
			t.Errorf("%d pods of the name, want %d", len(got), named)
		}
	}
	take(config.ADD, "http", "a", "b")
	take(config.ADD, "file", "a")
	expect("a", "file", 3)
	take(config.UPDATE, "file", "a")
	take(config.REMOVE, "api", "a") // which never had it
	take(config.REMOVE, "file", "a")
	expect("a", "http", 2)
	take(config.REMOVE, "http", "a")
	expect("a", "", 1)
	expect("b", "http", 1)
}
