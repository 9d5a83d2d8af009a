package lookup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

func TestPathsOfLogs(t *testing.T) {
	web := logFile{pod: types.NamespacedName{Namespace: "default", Name: "web-node1"}, uid: "u-1", container: "app", restarts: 2}
	link := logFile{pod: types.NamespacedName{Namespace: "default", Name: "web-node1"}, id: appID}
	cut := logFile{pod: link.pod}
	strange := web
	strange.uid = "u_1" // a manifest can have any UID
	for path, want := range map[string]*logFile{
		"/var/log/pods/default_web-node1_u-1/app/2.log":                              &web,
		"/host/var/log/pods/default_web-node1_u-1/app/2.log":                         &web,
		"default_web-node1_u-1/app/2.log":                                            &web,
		"/var/log/pods/default_web-node1_u-1/app/2.log.20260101-101010":              &web,
		"/var/log/pods/default_web-node1_u-1/app/2.log.20260101-101010.gz":           &web,
		"/var/log/pods/default_web-node1_u-1/app/2.log.20260101-101010.tmp":          &web,
		"/var/log/pods/default_web-node1_u_1/app/2.log":                              &strange,
		"/var/log/containers/web-node1_default_app-" + appID + ".log":                &link,
		"web-node1_default_app-with-dashes-" + appID + ".log":                        &link,
		"/var/log/containers/web-node1_default_app-" + appID[:60] + ".log":           &cut,
		"/var/log/containers/web-node1_default_" + strings.Repeat("a", 220) + ".log": &cut,
		"/var/log/pods/default_web-node1_u-1/app":                                    nil,
		"/var/log/pods/default_web-node1_u-1/app/x.log":                              nil,
		"/var/log/pods/default_web-node1_u-1/app/2.logs":                             nil,
		"/var/log/pods/default_web-node1/app/2.log":                                  nil,
		"/var/log/pods/default_web-node1_u-1/2.log":                                  nil,
		"/var/log/pods/default_web-node1_u-1/app/9999999999999999999.log":            nil,
		"/var/log/containers/web-node1_default.log":                                  nil,
		"/var/log/syslog": nil,
	} {
		got := parseLog(path)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: got %+v, want %+v", path, got, want)
		}
	}
}

func TestLogs(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.serves()
		const dir = "/var/log/pods/default_web_web"
		n.expect("file web app running", Query{LogPath: dir + "/app/0.log"})
		n.expect("file web app running", Query{LogPath: dir + "/app/0.log.20260101-101010.gz"})
		n.expect("file web app ?", Query{LogPath: dir + "/app/1.log"}) // the runtime does not have it
		n.expect("file web gone ?", Query{LogPath: dir + "/gone/0.log", Wait: time.Second})
		for _, path := range []string{"/var/log/pods/default_web_none/app/0.log", "/var/log/pods/default_other_web/app/0.log", "/var/log/pods/tenant_web_web/app/0.log"} {
			log := parseLog(path)
			n.expect("looking up log "+path+": no pod "+log.pod.String()+" with UID "+string(log.uid)+" is known", Query{LogPath: path, Wait: time.Second})
		}
		// The container is recorded later, and then a later one with its name.
		n.runtime.set("web", "web", sandboxID+" - running", appID+" app running", sideID+" side running", strings.Repeat("e", 64)+" new created")
		n.expect("file web new created", Query{LogPath: dir + "/new/0.log", Wait: time.Minute})
		n.runtime.set("web", "web", sandboxID+" - running", strings.Repeat("f", 64)+" app running")
		n.runtime.mu.Lock()
		n.runtime.pods[len(n.runtime.pods)-1].Containers[1].Attempt = 3
		n.runtime.mu.Unlock()
		n.expect("file web app running", Query{LogPath: dir + "/app/3.log", Wait: time.Minute})
		began := time.Now()
		n.expect("file web app exited ended", Query{LogPath: dir + "/app/0.log", Wait: time.Minute}) // the runtime has removed it
		n.expect("file web side exited ended", Query{LogPath: dir + "/side/0.log", Wait: time.Minute})
		n.expect("file web app ?", Query{LogPath: dir + "/app/2.log", Wait: time.Minute})
		if took := time.Since(began); took != 0 {
			n.t.Errorf("the log of a container that is gone took %v", took)
		}
		n.runtime.set("stray", "stray", sideID+" side running")
		n.find(Query{ContainerID: "none", Wait: time.Second}) // lists
		n.expect("orphan stray side running", Query{LogPath: "/var/log/pods/default_stray_stray/side/0.log"})
		n.deliver(config.REMOVE, "file", pod("web"))
		n.expect("file web ended app running", Query{LogPath: dir + "/app/3.log", Wait: time.Minute})
	})
}

// The directory of a static pod has the UID of the static pod. A pod that is annotated as the mirror pod of another one does not
// get its logs.
func TestLogsOfStaticPods(t *testing.T) {
	onNode(t, false, func(n *node) {
		path := "/var/log/pods/default_web_web/app/0.log"
		forged := mirrorOf(pod("web"), "forged")
		forged.Namespace = "tenant"
		n.deliver(config.ADD, "api", forged)
		n.expect("looking up log "+path+": no pod default/web with UID web is known", Query{LogPath: path})
		n.deliver(config.ADD, "api", mirrorOf(pod("web"), "mirror"))
		n.expect("api web app ?", Query{LogPath: path})
		n.deliver(config.ADD, "file", pod("web"))
		n.expect("file web app ?", Query{LogPath: path})
	})
}

func TestLinksToLogs(t *testing.T) {
	for _, withRuntime := range []bool{true, false} {
		onNode(t, withRuntime, func(n *node) {
			n.serves()
			n.logLinks = t.TempDir()
			link := func(name, to string) Query {
				t.Helper()
				if err := os.Symlink(to, filepath.Join(n.logLinks, name)); err != nil {
					t.Fatal(err)
				}
				return Query{LogPath: "/var/log/containers/" + name}
			}
			removed := link("web_default_gone-"+otherID[:63]+"e.log", "/var/log/pods/default_web_web/gone/0.log")
			cut := link("web_default_"+strings.Repeat("b", 239)+".log", "/var/log/pods/default_web_web/app/0.log")
			foreign := link("web_default_app-"+strings.Repeat("e", 64)+".log", "/var/log/pods/default_other_other/app/0.log")
			elsewhere := link("web_default_app.log", "/etc/passwd")
			without := Query{LogPath: "/var/log/containers/web_default_app-" + appID + ".log"}
			dangling := "looking up log " + elsewhere.LogPath + ": its name has no ID of a container, and " + n.logLinks + " has no link with this name to the log of such a pod"
			n.expect(dangling, elsewhere)
			n.expect("file web gone ?", removed)
			if !withRuntime {
				const none = ": there is no container runtime: name one with --container-runtime-endpoint"
				n.expect("file web app ?", cut)
				n.expect("looking up log "+without.LogPath+none, without)
				n.expect("looking up log "+foreign.LogPath+none, foreign)
				return
			}
			n.expect("file web app running", cut)
			n.expect("file web app running", without)
			n.expect("looking up log "+foreign.LogPath+": the container runtime does not have its container "+strings.Repeat("e", 64), foreign)
		})
	}
}
