package podname

import (
	"strings"
	"testing"
)

type item struct{ namespace, name string }

func TestNames(t *testing.T) {
	pods := []item{{"default", "web-node1"}, {"kube-system", "web-node1"}, {"default", "db-node1"}, {"default", "db"}, {"other", "one-node1"}}
	for _, c := range []struct{ text, namespace, want string }{
		{"db", "", "default/db"},
		{"db-node1", "", "default/db-node1"},
		{"one", "", "other/one-node1"},
		{"pod/one-node1", "", "other/one-node1"},
		{"one", "default", `pod "default/one" not found`},
		{"one", "other", "other/one-node1"},
		{"other/one", "", "other/one-node1"},
		{"other/one", "other", "other/one-node1"},
		{"other/one", "default", `"other/one" is not in the namespace default of --namespace: leave out one of them`},
		{"web", "", `"web" is ambiguous: expected one of default/web-node1, kube-system/web-node1`},
		{"web", "kube-system", "kube-system/web-node1"},
		{"default/web", "", "default/web-node1"},
		{"web-node2", "", `pod "web-node2" not found`},
		{"", "", `"" is not a pod: expected NAME or NAMESPACE/NAME`},
		{"a/b/c", "", `"a/b/c" is not a pod: expected NAME or NAMESPACE/NAME`},
		{"/a", "", `"/a" is not a pod: expected NAME or NAMESPACE/NAME`},
	} {
		t.Run(strings.TrimSpace(c.namespace+" "+c.text), func(t *testing.T) {
			got := ""
			n, err := Parse(c.text, c.namespace)
			if err == nil {
				var names []string
				for _, p := range Find(n, pods, func(p *item) (string, string, string) { return p.namespace, p.name, "Node1" }) {
					names = append(names, p.namespace+"/"+p.name)
				}
				got, err = n.One(names)
			}
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
