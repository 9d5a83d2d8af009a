package docs

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/podconfigd/podconfigd/"

// imports returns, for each package of the module, its imports, and all its dependencies.
func imports(t *testing.T) (direct, all map[string][]string) {
	t.Helper()
	direct, all = map[string][]string{}, map[string][]string{}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		parts := strings.Split(strings.TrimSpace(line), "|")
		name := strings.TrimPrefix(parts[0], module)
		direct[name], all[name] = strings.Fields(parts[1]), strings.Fields(parts[2])
	}
	return direct, all
}

// Imports point one way: cmd → daemon → server, sources, syncloop → journal, manifest,
// config. The list has all packages of this module that a package may import, without those of
// everywhere, which import only each other.
func TestImportsPointOneWay(t *testing.T) {
	everywhere := []string{"internal/await", "internal/failure", "internal/lazyregexp", "internal/metric", "internal/printable", "internal/retry"}
	may := map[string][]string{
		"internal/await":                 {},
		"internal/failure":               {},
		"internal/lazyregexp":            {},
		"internal/metric":                {},
		"internal/printable":             {},
		"internal/retry":                 {},
		"api/config/v1alpha1":            {"internal/option", "internal/socketpath"},
		"api/podconfigd/v1alpha1":        {},
		"api/stream/v1alpha1":            {},
		"internal/located":               {"internal/option", "internal/similar"},
		"internal/configfile":            {"api/config/v1alpha1", "internal/located", "internal/option", "internal/smallfile", "pkg/daemon"},
		"internal/crictl":                {},
		"internal/mend":                  {"api/stream/v1alpha1", "pkg/config"},
		"internal/page":                  {},
		"internal/objectprint":           {},
		"internal/story":                 {"internal/mend", "api/stream/v1alpha1", "internal/podtable", "internal/similar", "pkg/client", "pkg/config", "internal/podname"},
		"pkg/config":                     {"internal/deepequal", "internal/mailbox"},
		"pkg/access":                     {"internal/deepequal", "pkg/config"},
		"internal/plainyaml":             {},
		"pkg/manifest":                   {"internal/located", "internal/plainyaml"},
		"pkg/podstatus":                  {},
		"pkg/pleg":                       {},
		"pkg/kubelet":                    {"api/stream/v1alpha1", "pkg/config", "pkg/manifest", "pkg/pleg"},
		"pkg/kubelet/podsapi":            {"api/stream/v1alpha1", "pkg/config", "pkg/podstatus"},
		"pkg/pleg/cri":                   {"pkg/config", "pkg/pleg", "pkg/pleg/recorder", "pkg/podstatus"},
		"pkg/pleg/recorder":              {"pkg/pleg", "pkg/podstatus"},
		"pkg/sources":                    {"api/stream/v1alpha1", "pkg/config"},
		"pkg/sources/file":               {"api/stream/v1alpha1", "pkg/config", "pkg/manifest", "pkg/sources", "pkg/sources/file/follow", "pkg/sources/file/manifests"},
		"pkg/sources/file/follow":        {},
		"pkg/sources/file/manifests":     {"api/stream/v1alpha1", "pkg/config", "pkg/manifest", "pkg/sources", "pkg/sources/file/follow"},
		"pkg/sources/http":               {"internal/smallfile", "internal/version", "api/stream/v1alpha1", "pkg/config", "pkg/manifest", "pkg/sources"},
		"pkg/sources/apiserver":          {"internal/smallfile", "api/stream/v1alpha1", "pkg/config", "pkg/sources"},
		"pkg/events":                     {"internal/mend", "api/stream/v1alpha1", "pkg/config"},
		"pkg/sources/sourcetest":         {"pkg/config", "pkg/sources"},
		"pkg/journal":                    {"internal/podmask", "pkg/config", "api/stream/v1alpha1"},
		"pkg/journal/store":              {"internal/lockfile", "pkg/config", "pkg/journal"},
		"pkg/journal/history":            {"pkg/access", "internal/poddiff", "pkg/config", "pkg/journal", "pkg/journal/store", "api/stream/v1alpha1"},
		"pkg/journal/view":               {"pkg/access", "internal/podfields", "internal/podmask", "pkg/config", "pkg/journal", "api/stream/v1alpha1"},
		"pkg/journal/wire":               {"pkg/config", "pkg/journal", "pkg/journal/view", "api/stream/v1alpha1"},
		"pkg/syncloop":                   {"internal/mailbox", "pkg/config", "pkg/pleg", "pkg/podstatus"},
		"pkg/lookup":                     {"pkg/access", "pkg/journal", "pkg/journal/view", "pkg/pleg", "api/stream/v1alpha1"},
		"pkg/mirror":                     {"pkg/config", "pkg/journal", "pkg/podstatus", "api/stream/v1alpha1"},
		"pkg/auth":                       {"internal/smallfile"},
		"pkg/server":                     {"internal/page", "api/stream/v1alpha1", "internal/loopback", "pkg/access", "pkg/auth", "pkg/journal", "pkg/journal/history", "pkg/journal/view", "pkg/lookup", "pkg/server/conn", "pkg/server/internal/backend", "pkg/server/internal/respond", "pkg/server/kubeapi", "pkg/server/rest", "pkg/server/rpc", "pkg/server/socket"},
		"pkg/server/socket":              {"internal/lockfile", "internal/loopback"},
		"pkg/server/conn":                {"pkg/access", "pkg/journal", "pkg/journal/view", "pkg/server/internal/respond"},
		"pkg/server/rest":                {"internal/crictl", "api/stream/v1alpha1", "pkg/journal/history", "pkg/journal/view", "pkg/journal/wire", "pkg/server/conn", "pkg/server/internal/backend", "pkg/server/internal/params", "pkg/server/internal/respond"},
		"pkg/server/rpc":                 {"api/podconfigd/v1alpha1", "api/stream/v1alpha1", "pkg/access", "pkg/auth", "pkg/config", "pkg/journal", "pkg/journal/history", "pkg/journal/view", "pkg/journal/wire", "pkg/lookup", "pkg/server/conn", "pkg/server/internal/backend", "pkg/server/internal/params", "pkg/server/internal/respond"},
		"pkg/server/kubeapi":             {"internal/crictl", "internal/podfields", "internal/podtable", "pkg/config", "pkg/journal", "pkg/journal/view", "pkg/journal/wire", "pkg/server/conn", "pkg/server/internal/backend", "pkg/server/internal/params", "pkg/server/internal/respond"},
		"pkg/server/internal/backend":    {"internal/mend", "api/stream/v1alpha1", "pkg/access", "pkg/config", "pkg/journal", "pkg/journal/history", "pkg/journal/view", "pkg/lookup", "pkg/server/conn", "pkg/server/internal/params", "pkg/server/internal/respond"},
		"pkg/server/internal/params":     {"api/podconfigd/v1alpha1", "internal/podfields", "internal/podmask", "pkg/config", "pkg/journal", "pkg/journal/history", "pkg/journal/view", "pkg/lookup"},
		"pkg/server/internal/respond":    {"api/stream/v1alpha1"},
		"pkg/server/internal/servertest": {},
		"pkg/client":                     {"api/stream/v1alpha1", "internal/smallfile", "internal/socketpath"},
		"pkg/daemon/systemd":             {},
		"pkg/daemon": {"pkg/daemon/systemd", "pkg/access", "pkg/auth", "pkg/config", "pkg/manifest", "pkg/sources", "pkg/sources/file", "pkg/sources/http", "pkg/sources/apiserver", "pkg/events",
			"pkg/pleg", "pkg/pleg/cri", "pkg/pleg/recorder", "pkg/podstatus", "pkg/syncloop", "pkg/kubelet", "pkg/kubelet/podsapi", "pkg/lookup", "pkg/mirror", "pkg/journal", "pkg/journal/history", "pkg/journal/store", "pkg/journal/wire", "pkg/server", "pkg/server/conn", "pkg/server/socket", "api/config/v1alpha1", "api/stream/v1alpha1", "internal/mailbox", "internal/smallfile", "internal/socketpath", "internal/version"},
		"internal/cli":         {"api/stream/v1alpha1", "internal/crictl", "internal/option", "internal/poddiff", "pkg/client", "internal/podname", "internal/similar"},
		"internal/cli/get":     {"internal/cli", "internal/objectprint", "internal/podfields", "internal/podtable", "pkg/client", "pkg/config", "internal/podname"},
		"internal/cli/history": {"api/stream/v1alpha1", "internal/cli", "internal/poddiff", "pkg/client", "pkg/config", "pkg/journal/history", "internal/podname"},
		"internal/cli/lookup":  {"api/stream/v1alpha1", "internal/cli", "pkg/client", "internal/podname"},
		"internal/cli/proxy":   {"internal/cli", "internal/proxy", "pkg/client"},
		"internal/cli/release": {"internal/cli", "pkg/client", "pkg/config"},
		"internal/cli/resync":  {"internal/cli", "pkg/client"},
		"internal/cli/status":  {"internal/mend", "api/stream/v1alpha1", "internal/cli", "internal/story", "pkg/client"},
		"internal/cli/top":     {"api/stream/v1alpha1", "internal/cli", "internal/poddiff", "internal/podtable", "pkg/client", "pkg/config", "internal/cli/status", "internal/mend", "internal/story"},
		"internal/cli/watch":   {"api/stream/v1alpha1", "internal/cli", "internal/poddiff", "pkg/client"},
		"cmd/podconfigd": {"pkg/client", "pkg/config", "pkg/daemon", "pkg/manifest", "pkg/sources/file", "pkg/sources/apiserver", "api/config/v1alpha1", "api/stream/v1alpha1",
			"internal/cli", "internal/cli/get", "internal/cli/history", "internal/cli/lookup", "internal/cli/proxy", "internal/cli/release", "internal/cli/resync", "internal/cli/status", "internal/cli/top", "internal/cli/watch",
			"internal/configfile", "internal/logsink", "internal/option", "internal/ownership", "internal/poddiff", "internal/similar", "internal/socketpath", "internal/version"},
	}
	direct, _ := imports(t)
	for name, imported := range direct {
		allowed, listed := may[name]
		if (strings.HasPrefix(name, "pkg/") || strings.HasPrefix(name, "internal/cli")) && !listed {
			t.Errorf("%s is not listed here", name)
		}
		if !listed {
			continue
		}
		for _, path := range imported {
			if own, ok := strings.CutPrefix(path, module); ok && !slices.Contains(allowed, own) && !slices.Contains(everywhere, own) {
				t.Errorf("%s imports %s", name, own)
			}
		}
	}
}

func TestHeavyDependenciesStayWhereTheyAre(t *testing.T) {
	direct, all := imports(t)
	for name, imported := range direct {
		for _, path := range imported {
			if strings.HasPrefix(path, "k8s.io/kubernetes/") && name != "pkg/manifest" {
				t.Errorf("%s imports %s: that is for pkg/manifest alone", name, path)
			}
			if path == "github.com/spf13/cobra" && !strings.HasPrefix(name, "cmd/") && !strings.HasPrefix(name, "internal/cli") {
				t.Errorf("%s imports %s: that is for cmd and internal/cli alone", name, path)
			}
		}
	}
	// Users of these packages do not get heavy dependencies.
	for _, name := range []string{"pkg/config", "pkg/journal", "pkg/client", "pkg/syncloop"} {
		for _, path := range all[name] {
			for _, heavy := range []string{"k8s.io/kubernetes/", "k8s.io/client-go/", "github.com/fsnotify/", "google.golang.org/grpc", "github.com/spf13/cobra"} {
				if name == "pkg/syncloop" && heavy == "google.golang.org/grpc" {
					continue // pkg/podstatus uses the messages of CRI, whose package imports it
				}
				if strings.HasPrefix(path, heavy) {
					t.Errorf("%s depends on %s", name, path)
				}
			}
		}
	}
	if len(all["pkg/config"]) == 0 {
		t.Error("go list found nothing")
	}
}

// On platforms other than Linux, the command only connects to daemons.
func TestOtherPlatformsHaveNoDaemon(t *testing.T) {
	for _, platform := range []string{"darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", module+"cmd/podconfigd")
		cmd.Env = append(os.Environ(), "GOOS="+platform, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for path := range strings.Lines(string(out)) {
			path = strings.TrimSpace(path)
			switch strings.TrimPrefix(path, module) {
			case "pkg/daemon", "pkg/server", "pkg/manifest", "pkg/pleg", "pkg/lookup", "internal/configfile":
				t.Errorf("%s: cmd/podconfigd depends on %s", platform, path)
			}
			heavy := strings.HasPrefix(path, "k8s.io/kubernetes") || strings.HasPrefix(path, "k8s.io/client-go")
			jsonPath := path == "k8s.io/client-go/util/jsonpath" || path == "k8s.io/client-go/third_party/forked/golang/template"
			if heavy && !jsonPath {
				t.Errorf("%s: cmd/podconfigd depends on %s", platform, path)
			}
		}
	}
}
