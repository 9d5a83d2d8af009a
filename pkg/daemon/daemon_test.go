package daemon_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	configapi "github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// every returns a period of the configuration.
func every(period time.Duration) *metav1.Duration { return &metav1.Duration{Duration: period} }

// valid returns a valid configuration.
func valid() daemon.Config {
	config := daemon.Config{}
	config.StaticPodPath, config.Socket = "manifests", new("podconfigd.sock")
	return config
}

func TestTheDefaultsLackOnlyASource(t *testing.T) {
	config := daemon.Config{}
	config.Socket = new("podconfigd.sock") // its default depends on the user
	if err := config.Validate(); err == nil || !strings.HasPrefix(err.Error(), "no source of pods") || strings.Contains(err.Error(), "\n") {
		t.Errorf("without a source: %v", err)
	}
	config.InCluster = true
	if err := config.Validate(); err != nil {
		t.Errorf("with the apiserver: %v", err)
	}
}

func TestValidateReportsEveryFaultAtOnce(t *testing.T) {
	config := daemon.Config{PodConfigdConfiguration: configapi.PodConfigdConfiguration{
		StaticPodURLHeader:       map[string][]string{"A": {"b"}},
		StaticPodURLKeyFile:      "key",
		Socket:                   new(""),
		SocketMode:               new("04600"),
		MetricsBindAddress:       "9090",
		ContainerRuntimeEndpoint: "tcp://1.2.3.4:5",
		FileCheckFrequency:       every(0),
		PLEGRelistPeriod:         every(0),
		PLEGRelistThreshold:      every(0),
		SyncFrequency:            every(25 * time.Hour),
		MaxSubscribers:           new(int32(math.MaxInt32)),
		MaxSubscribersPerProcess: new(int32(0)),
		JournalMaxBytes:          new(int64(-1)),
		RemovalBrake:             new(intstr.Parse("half")),
		KubeletPresence:          new("here"),
		CreateMirrorPods:         true,
		Owners:                   true,
	}}
	err := config.Validate()
	for _, want := range []string{
		"no source of pods", "--manifest-url-header: requires --manifest-url", "--manifest-url-key-file: requires --manifest-url-cert-file", "--socket: empty",
		`--socket-mode: "04600"`, "--metrics-bind-address: ", "--container-runtime-endpoint: ",
		"--file-check-frequency: 0s is too short: expected 1ms or more", "--pleg-relist-period: 0s",
		"--pleg-relist-threshold: 0s", "--sync-frequency: 25h0m0s is too long: expected 24h0m0s or less",
		"--max-subscribers: 2147483647 is too large: expected 1048576 or less", "--max-subscribers-per-process: 0 is too small: expected 1 or more",
		`--removal-brake: "half" is not a number or a share of pods: expected 1 to 1000000, or 1% to 99%`,
		"--journal-max-bytes: -1 is too small", `--kubelet-presence: "here" is unknown: expected auto, present or absent`, "--create-mirror-pods: requires --kubeconfig",
		"--owners: requires --kubeconfig",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if _, again := daemon.New(config); again == nil || again.Error() != err.Error() {
		t.Errorf("New says %v", again)
	}
}

func TestValidateAddresses(t *testing.T) {
	config := valid()
	config.Socket, config.PodsAPISocket = new("/run/s.sock"), "/run/p.sock"
	for _, listen := range [][]string{
		{"unix:///run/t.sock"}, {"http://127.0.0.1:1", "http://127.0.0.1:2", "http://[::1]:1"}, {"http://127.0.0.1:0", "http://127.0.0.1:0"},
	} {
		config.Listen = listen
		if err := config.Validate(); err != nil {
			t.Errorf("%v: %v", listen, err)
		}
	}
	for want, listen := range map[string][]string{
		`--listen: "http://0.0.0.0:10255": http is only for loopback addresses, and 0.0.0.0 is not one`: {"http://0.0.0.0:10255"},
		`--listen: "http://127.0.0.1:1": given twice`:                                                   {"http://127.0.0.1:1", "http://127.0.0.1:1"},
		`--listen: "unix:///run/../run/t.sock": given twice`:                                            {"unix:///run/t.sock", "unix:///run/../run/t.sock"},
		`--listen: "unix:///run//s.sock": same path as --socket`:                                        {"unix:///run//s.sock"},
		`--listen: "unix:///run/p.sock": same path as --pods-api-socket`:                                {"unix:///run/p.sock"},
		`--listen: "10255" has no scheme`:                                                               {"10255"},
	} {
		t.Run(strings.Join(listen, ","), func(t *testing.T) {
			config.Listen = listen
			if err := config.Validate(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %s", listen, err, want)
			}
		})
	}
}

// A socket is a path: an address would be a directory "unix:" in the working directory.
func TestValidateSocketPaths(t *testing.T) {
	for want, path := range map[string]string{
		`"unix:///run/p.sock": expected a path: leave out unix://`:                   "unix:///run/p.sock",
		`"/etc/podconfigd/unix:/run/p.sock": expected a path: leave out unix://`:     "/etc/podconfigd/unix:/run/p.sock", // relative to a file
		`"/run/podconfigd/": the path is a directory: expected the path of a socket`: "/run/podconfigd/",
		"empty: expected a path": "",
	} {
		t.Run(cmp.Or(path, "empty"), func(t *testing.T) {
			config := valid()
			config.Socket = new(path)
			if err := config.Validate(); err == nil || !strings.HasPrefix(err.Error(), "--socket: "+want) {
				t.Errorf("--socket %s: %v", path, err)
			}
			if config.Socket, config.PodsAPISocket = new("/run/s.sock"), path; path == "" {
				return // none
			}
			if err := config.Validate(); err == nil || err.Error() != "--pods-api-socket: "+want {
				t.Errorf("--pods-api-socket %s: %v", path, err)
			}
		})
	}
}

func TestNewOpensNothing(t *testing.T) {
	config := valid()
	config.Socket = new(filepath.Join(t.TempDir(), "s"))
	if _, err := daemon.New(config); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(filepath.Dir(*config.Socket), "*")); len(found) > 0 {
		t.Errorf("New made %v", found)
	}
}

func TestRunReturnsTheCause(t *testing.T) {
	config := valid()
	dir := t.TempDir()
	config.StaticPodPath, config.Socket = dir, new(filepath.Join(dir, ".s"))
	d, err := daemon.New(config)
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := d.Run(ctx); !errors.Is(err, cause) {
		t.Errorf("Run returns %v", err)
	}
}

func withIP(ip string) *daemon.Config {
	config := new(daemon.Config)
	config.NodeIP = ip
	return config
}

// As for the kubelet, these can't be addresses of a node.
func TestTheAddressOfTheNode(t *testing.T) {
	for _, good := range []string{"", "192.0.2.7", "fd00::1", "192.0.2.7,fd00::1", "fd00::1, 192.0.2.7", "0.0.0.0", "::"} {
		if err := withIP(good).Validate(); err == nil || strings.Contains(err.Error(), "--node-ip") {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"junk":                `"junk" is not an IP address`,
		"192.0.2.7,192.0.2.8": "expected one address, or an IPv4 and an IPv6 address",
		"0.0.0.0,::":          "an unspecified address must be the only one",
		"127.0.0.1":           `"127.0.0.1" is a loopback address: expected an address of the node that pods can reach`,
		"::1":                 `"::1" is a loopback address`,
		"224.0.0.1":           `"224.0.0.1" is a multicast address`,
		"192.0.2.7,ff02::1":   `"ff02::1" is a multicast address`,
		"fe80::1":             `"fe80::1" is a link-local address`,
		"169.254.1.1":         `"169.254.1.1" is a link-local address`,
	} {
		t.Run(bad, func(t *testing.T) {
			if err := withIP(bad).Validate(); err == nil || !strings.Contains(err.Error(), "--node-ip: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: no %q in:\n%v", bad, want, err)
			}
		})
	}
}
