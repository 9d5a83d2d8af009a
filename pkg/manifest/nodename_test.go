package manifest

import (
	"os"
	"strings"
	"testing"
)

func TestNodeName(t *testing.T) {
	for _, valid := range [][2]string{{"n1", "n1"}, {" Node-1.Example \n", "node-1.example"}, {"10.0.0.1", "10.0.0.1"}} {
		if name, err := NodeName(valid[0]); string(name) != valid[1] || err != nil {
			t.Errorf("%q: got %q, %v, want %q", valid[0], name, err, valid[1])
		}
	}
	for _, wrong := range [][2]string{{" ", "the node name is empty"}, {"a b", `invalid node name "a b": a lowercase RFC 1123 subdomain`}, {"a_b", `invalid node name "a_b"`}} {
		if name, err := NodeName(wrong[0]); err == nil || !strings.HasPrefix(err.Error(), wrong[1]) || strings.Contains(err.Error(), "--hostname-override") {
			t.Errorf("%q: got %q, %v, want %q, and no flag, which is set", wrong[0], name, err, wrong[1])
		}
	}
}

// Without an override, it is the hostname, and an error says how to set another.
func TestNodeNameOfTheMachine(t *testing.T) {
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	name, err := NodeName("")
	if err == nil && string(name) != strings.ToLower(strings.TrimSpace(hostname)) || err != nil && !strings.Contains(err.Error(), "--hostname-override") {
		t.Errorf("got %q, %v with the hostname %q", name, err, hostname)
	}
}
