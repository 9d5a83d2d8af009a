package manifests

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// The log has the begin and the end of each fault, and no fault that a rename seems to have.
func TestLogOfFaults(t *testing.T) {
	pod, bad := podtest.Manifest("a", "1"), "apiVersion: v1\nkind: Pod\nmetadata: ["
	for name, test := range map[string]struct {
		change func(dir string) error
		want   []string
	}{
		"held, then good": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(bad), 0o600)
		}, []string{"Manifest not usable", "Manifest accepted again"}},
		"shadowed, then not": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "b.yaml"), []byte(pod), 0o600)
		}, []string{"Manifest not usable", "Manifest is gone"}},
		"rejected, then gone": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "b.yaml"), []byte(bad), 0o600)
		}, []string{"Manifest not usable", "Manifest is gone"}},
		"renamed": {func(dir string) error {
			return os.Rename(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml"))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			testutil.WriteFile(t, filepath.Join(dir, "a.yaml"), pod)
			var lines []string
			ctx := klog.NewContext(context.Background(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
			set := New(Options{Path: dir, Decoder: manifest.NewDecoder("node1"), Impatient: true})
			look := func() {
				entries, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, entry := range entries {
					names = append(names, entry.Name())
				}
				set.LookAll(ctx, true, names)
			}
			look()
			if err := test.change(dir); err != nil {
				t.Fatal(err)
			}
			look()
			if name != "renamed" {
				testutil.WriteFile(t, filepath.Join(dir, "a.yaml"), pod)
				_ = os.Remove(filepath.Join(dir, "b.yaml"))
				look()
			}
			var messages []string
			for _, line := range lines {
				_, message, _ := strings.Cut(line, `"msg"="`)
				message, _, _ = strings.Cut(message, `"`)
				messages = append(messages, message)
			}
			if !slices.Equal(messages, test.want) {
				t.Errorf("logged %q", lines)
			}
		})
	}
}
