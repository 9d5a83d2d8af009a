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
	everywhere := []string{"internal/await", "internal/jsonfields", "internal/metric", "internal/printable"}
	may := map[string][]string{
		"internal/await":                  {},
		"internal/apistatus":              {},
		"internal/jsonfields":             {},
		"internal/metric":                 {},
		"internal/printable":              {},
		"api/config/v1alpha1":             {"internal/option", "api/stream/v1alpha1"},
		"api/podconfigd/v1alpha1":         {},
		"api/stream/v1alpha1":             {},
		"internal/yamlfault":              {"internal/option", "internal/similar"},
		"internal/configfile":             {"pkg/config", "pkg/sources/apiserver", "api/config/v1alpha1", "internal/yamlfault", "internal/option", "internal/smallfile", "pkg/daemon"},
		"internal/mend":                   {"api/stream/v1alpha1"},
		"pkg/server/internal/page":        {},
		"pkg/config":                      {"internal/calls"},
		"pkg/access":                      {"pkg/config"},
		"pkg/manifest/internal/plainyaml": {},
		"pkg/manifest":                    {"internal/yamlfault", "pkg/manifest/internal/plainyaml"},
		"pkg/podstatus":                   {},
		"pkg/pleg":                        {},
		"pkg/kubelet":                     {"api/stream/v1alpha1", "pkg/config", "pkg/manifest", "pkg/pleg"},
		"pkg/kubelet/podsapi":             {"api/stream/v1alpha1", "pkg/config", "pkg/podstatus"},
		"pkg/pleg/cri":                    {"pkg/config", "pkg/pleg", "pkg/pleg/recorder", "pkg/podstatus"},
		"pkg/pleg/recorder":               {"pkg/pleg", "pkg/podstatus"},
		"pkg/sources":                     {"api/stream/v1alpha1", "pkg/config"},
		"pkg/sources/file":                {"api/stream/v1alpha1", "pkg/config", "pkg/manifest", "pkg/sources", "pkg/sources/file/follow", "pkg/sources/file/manifests"},
		"pkg/sources/file/follow":         {},
		"pkg/sources/file/manifests":      {"api/stream/v1alpha1", "pkg/config", "pkg/manifest", "pkg/sources", "pkg/sources/file/follow"},
		"pkg/sources/http":                {"internal/smallfile", "internal/version", "api/stream/v1alpha1", "pkg/config", "pkg/manifest", "pkg/sources"},
		"pkg/sources/apiserver":           {"internal/smallfile", "api/stream/v1alpha1", "pkg/config", "pkg/sources"},
		"pkg/events":                      {"internal/mend", "api/stream/v1alpha1", "pkg/config"},
		"pkg/sources/sourcetest":          {"pkg/config", "pkg/sources"},
		"pkg/journal":                     {"internal/podfields", "pkg/config", "api/stream/v1alpha1"},
		"pkg/journal/store":               {"internal/smallfile", "pkg/config", "pkg/journal"},
		"pkg/journal/history":             {"pkg/access", "internal/poddiff", "internal/podfields", "pkg/config", "pkg/journal", "pkg/journal/store", "api/stream/v1alpha1"},
		"pkg/journal/view":                {"pkg/access", "internal/podfields", "pkg/config", "pkg/journal", "api/stream/v1alpha1"},
		"pkg/journal/wire":                {"pkg/config", "pkg/journal", "pkg/journal/view", "api/stream/v1alpha1"},
		"pkg/syncloop":                    {"internal/calls", "pkg/config", "pkg/pleg", "pkg/podstatus"},
		"pkg/lookup":                      {"internal/apistatus", "pkg/access", "pkg/config", "pkg/devices", "pkg/journal", "pkg/journal/view", "pkg/pleg", "api/stream/v1alpha1"},
		"pkg/containers":                  {"internal/apistatus", "api/stream/v1alpha1", "pkg/access", "pkg/journal", "pkg/journal/view", "pkg/lookup", "pkg/pleg"},
		"pkg/devices":                     {"pkg/journal", "pkg/pleg", "api/stream/v1alpha1"},
		"pkg/owners":                      {"internal/smallfile", "pkg/config", "pkg/journal", "api/stream/v1alpha1"},
		"pkg/mirror":                      {"pkg/config", "pkg/journal", "pkg/podstatus", "api/stream/v1alpha1"},
		"pkg/auth":                        {"internal/smallfile"},
		"pkg/server":                      {"internal/apistatus", "internal/loopback", "pkg/server/internal/page", "api/stream/v1alpha1", "pkg/access", "pkg/auth", "pkg/containers", "pkg/journal", "pkg/journal/history", "pkg/journal/view", "pkg/lookup", "pkg/server/conn", "pkg/server/internal/backend", "pkg/server/internal/respond", "pkg/server/kubeapi", "pkg/server/rest", "pkg/server/rpc", "pkg/server/socket"},
		"pkg/server/socket":               {"internal/smallfile", "internal/loopback"},
		"pkg/server/conn":                 {"internal/apistatus", "pkg/access", "pkg/journal", "pkg/server/internal/respond"},
		"pkg/server/rest":                 {"internal/apistatus", "pkg/devices", "api/stream/v1alpha1", "pkg/containers", "pkg/journal", "pkg/journal/history", "pkg/journal/view", "pkg/journal/wire", "pkg/server/conn", "pkg/server/internal/backend", "pkg/server/internal/params", "pkg/server/internal/respond"},
		"pkg/server/rpc":                  {"internal/apistatus", "api/podconfigd/v1alpha1", "api/stream/v1alpha1", "pkg/auth", "pkg/config", "pkg/containers", "pkg/journal", "pkg/journal/history", "pkg/journal/view", "pkg/journal/wire", "pkg/lookup", "pkg/server/conn", "pkg/server/internal/backend", "pkg/server/internal/params", "pkg/server/internal/respond"},
		"pkg/server/kubeapi":              {"internal/apistatus", "internal/podfields", "pkg/config", "pkg/journal", "pkg/journal/view", "pkg/journal/wire", "pkg/server/conn", "pkg/server/internal/backend", "pkg/server/internal/params", "pkg/server/internal/respond"},
		"pkg/server/internal/backend":     {"internal/apistatus", "internal/mend", "internal/podfields", "api/stream/v1alpha1", "pkg/access", "pkg/config", "pkg/containers", "pkg/journal", "pkg/journal/history", "pkg/journal/view", "pkg/lookup", "pkg/server/conn", "pkg/server/internal/params", "pkg/server/internal/respond"},
		"pkg/server/internal/params":      {"api/podconfigd/v1alpha1", "internal/podfields", "pkg/config", "pkg/containers", "pkg/journal", "pkg/journal/history", "pkg/journal/view", "pkg/lookup"},
		"pkg/server/internal/respond":     {"internal/apistatus", "api/stream/v1alpha1"},
		"pkg/server/internal/servertest":  {},
		"pkg/client":                      {"api/stream/v1alpha1", "internal/smallfile"},
		"pkg/daemon/systemd":              {},
		"pkg/daemon": {"internal/apistatus", "internal/mend", "pkg/daemon/systemd", "pkg/access", "pkg/auth", "pkg/config", "pkg/manifest", "pkg/sources", "pkg/sources/file", "pkg/sources/http", "pkg/sources/apiserver", "pkg/events",
			"pkg/pleg", "pkg/pleg/cri", "pkg/pleg/recorder", "pkg/podstatus", "pkg/syncloop", "pkg/kubelet", "pkg/kubelet/podsapi", "pkg/lookup", "pkg/containers", "pkg/devices", "pkg/mirror", "pkg/owners", "pkg/journal", "pkg/journal/history", "pkg/journal/store", "pkg/journal/wire", "pkg/server", "pkg/server/conn", "pkg/server/socket", "api/config/v1alpha1", "api/stream/v1alpha1", "internal/calls", "internal/smallfile", "internal/version"},
		"internal/command":             {"internal/apistatus", "api/config/v1alpha1", "internal/option", "internal/similar", "internal/version"},
		"cmd/podconfigd/logsink":       {},
		"cmd/podconfigd/ownership":     {},
		"cmd/podconfigd":               {"internal/command", "internal/configfile", "cmd/podconfigd/logsink", "cmd/podconfigd/ownership", "pkg/daemon"},
		"cmd/podconfigctl":             {"cmd/podconfigctl/config", "cmd/podconfigctl/export", "cmd/podconfigctl/get", "cmd/podconfigctl/history", "cmd/podconfigctl/lookup", "cmd/podconfigctl/proxy", "cmd/podconfigctl/release", "cmd/podconfigctl/resync", "cmd/podconfigctl/status", "cmd/podconfigctl/top", "cmd/podconfigctl/validate", "cmd/podconfigctl/watch", "internal/command"},
		"cmd/podconfigctl/cli":         {"cmd/podconfigctl/podname", "internal/command", "api/stream/v1alpha1", "internal/poddiff", "pkg/client"},
		"cmd/podconfigctl/config":      {"internal/command", "internal/configfile"},
		"cmd/podconfigctl/export":      {"cmd/podconfigctl/cli", "internal/command", "internal/loopback", "internal/poddiff", "internal/printable", "internal/smallfile", "internal/version", "api/stream/v1alpha1", "pkg/client", "pkg/config"},
		"cmd/podconfigctl/get":         {"api/stream/v1alpha1", "cmd/podconfigctl/cli", "cmd/podconfigctl/objectprint", "cmd/podconfigctl/podname", "internal/command", "internal/podfields", "pkg/client", "pkg/config"},
		"cmd/podconfigctl/history":     {"cmd/podconfigctl/cli", "cmd/podconfigctl/podname", "internal/command", "api/stream/v1alpha1", "internal/poddiff", "internal/podfields", "pkg/client", "pkg/config", "pkg/journal/history"},
		"cmd/podconfigctl/lookup":      {"cmd/podconfigctl/cli", "cmd/podconfigctl/podname", "internal/command", "api/stream/v1alpha1", "pkg/client"},
		"cmd/podconfigctl/objectprint": {},
		"cmd/podconfigctl/podname":     {},
		"cmd/podconfigctl/proxy":       {"internal/apistatus", "api/stream/v1alpha1", "cmd/podconfigctl/cli", "internal/command", "internal/loopback", "pkg/client"},
		"cmd/podconfigctl/release":     {"cmd/podconfigctl/cli", "internal/command", "pkg/client", "pkg/config"},
		"cmd/podconfigctl/resync":      {"cmd/podconfigctl/cli", "internal/command", "pkg/client"},
		"cmd/podconfigctl/status":      {"cmd/podconfigctl/cli", "cmd/podconfigctl/story", "internal/command", "internal/mend", "api/stream/v1alpha1", "pkg/client"},
		"cmd/podconfigctl/story":       {"cmd/podconfigctl/podname", "internal/mend", "api/stream/v1alpha1", "internal/podfields", "internal/similar", "pkg/client", "pkg/config"},
		"cmd/podconfigctl/top":         {"cmd/podconfigctl/cli", "cmd/podconfigctl/status", "cmd/podconfigctl/story", "internal/command", "api/stream/v1alpha1", "internal/poddiff", "internal/podfields", "pkg/client", "pkg/config", "internal/mend"},
		"cmd/podconfigctl/validate":    {"cmd/podconfigctl/cli", "internal/command", "api/stream/v1alpha1", "internal/poddiff", "pkg/client", "pkg/config", "pkg/daemon", "pkg/manifest", "pkg/sources/file"},
		"cmd/podconfigctl/watch":       {"cmd/podconfigctl/cli", "cmd/podconfigctl/podname", "internal/command", "api/stream/v1alpha1", "internal/poddiff", "pkg/client"},
	}
	direct, _ := imports(t)
	for name, imported := range direct {
		allowed, listed := may[name]
		if (strings.HasPrefix(name, "pkg/") || strings.HasPrefix(name, "cmd/")) && !listed {
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
			if path == "github.com/spf13/cobra" && !strings.HasPrefix(name, "cmd/") && !strings.HasPrefix(name, "internal/command") {
				t.Errorf("%s imports %s: that is for cmd and internal/command alone", name, path)
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

// On platforms other than Linux, podconfigctl connects to daemons, and checks manifests with the kubelet's code.
func TestOtherPlatformsHaveNoDaemon(t *testing.T) {
	for _, platform := range []string{"darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", module+"cmd/podconfigctl")
		cmd.Env = append(os.Environ(), "GOOS="+platform, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		packages := strings.Fields(string(out))
		if !slices.Contains(packages, module+"cmd/podconfigctl/validate") {
			t.Errorf("%s: cmd/podconfigctl has no validate", platform)
		}
		for _, path := range packages {
			switch strings.TrimPrefix(path, module) {
			case "pkg/daemon", "pkg/server", "pkg/pleg", "pkg/lookup", "internal/configfile":
				t.Errorf("%s: cmd/podconfigctl depends on %s", platform, path)
			}
			if strings.HasPrefix(path, "k8s.io/client-go/kubernetes") || strings.HasPrefix(path, "k8s.io/client-go/rest") {
				t.Errorf("%s: cmd/podconfigctl depends on %s", platform, path)
			}
		}
	}
}

// Each program links only what it needs: the daemon draws and prints nothing, an agent that imports the client has none of the
// commands, and no program has the code of the kubelet or the kube-apiserver in which known vulnerabilities are.
func TestProgramsLinkWhatTheyNeed(t *testing.T) {
	_, all := imports(t)
	commands := []string{module + "cmd/podconfigctl", "charm.land/", "github.com/charmbracelet/", "k8s.io/cli-runtime", "github.com/liggitt/tabwriter"}
	vulnerable := []string{
		"k8s.io/kubernetes/cmd/", "k8s.io/kubernetes/pkg/controlplane", "k8s.io/kubernetes/pkg/kubelet", "k8s.io/kubernetes/pkg/registry",
		"k8s.io/kubernetes/pkg/volume", "k8s.io/kubernetes/plugin/",
	}
	for name, unwanted := range map[string][]string{
		"cmd/podconfigd":   append(vulnerable, commands...),
		"cmd/podconfigctl": vulnerable,
		"pkg/client":       append(commands, module+"cmd/", "github.com/spf13/", "google.golang.org/grpc"),
	} {
		if len(all[name]) == 0 {
			t.Errorf("%s: go list found no dependencies", name)
		}
		for _, path := range all[name] {
			if slices.ContainsFunc(unwanted, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
				t.Errorf("%s depends on %s", name, path)
			}
		}
	}
}
