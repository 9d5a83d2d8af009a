package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"time"

	"github.com/podconfigd/podconfigd/internal/socketpath"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg/cri"
)

// Validate returns every fault of the configuration in one error.
func (c *Config) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.StaticPodPath == "" && c.StaticPodURL == "" && !c.apiserver() {
		fail("no source of pods: set --pod-manifest-path, --manifest-url or --kubeconfig")
	}
	if c.StaticPodURL == "" && (len(c.StaticPodURLHeader) > 0 || c.StaticPodURLCAFile != "" || c.StaticPodURLCertFile != "" ||
		c.StaticPodURLKeyFile != "" || c.StaticPodURLTokenFile != "") {
		fail("the --manifest-url-… flags require --manifest-url")
	}
	if (c.StaticPodURLCertFile == "") != (c.StaticPodURLKeyFile == "") {
		fail("--manifest-url-cert-file and --manifest-url-key-file: set both or neither")
	}
	c.validateSockets(fail)
	c.validateLimits(fail)
	c.validatePeriods(fail)
	c.validateState(fail)
	if _, err := config.ParseRemovalLimit(c.RemovalBrake); err != nil {
		fail("--removal-brake: %w", err)
	}
	if c.ContainerRuntimeEndpoint != "" {
		if _, err := cri.SocketPath(c.ContainerRuntimeEndpoint); err != nil {
			fail("--container-runtime-endpoint: %w", err)
		}
	}
	if _, err := parseNodeIP(c.NodeIP); err != nil {
		fail("--node-ip: %w", err)
	}
	if c.RuntimeStatusAPIPods && (!c.RuntimeStatus || c.ContainerRuntimeEndpoint == "" || !c.apiserver()) {
		fail("--runtime-status-api-pods requires --runtime-status, --container-runtime-endpoint and --kubeconfig")
	}
	return errors.Join(errs...)
}

func (c *Config) validateSockets(fail func(format string, args ...any)) {
	switch fallback := socketpath.Default(); {
	case c.Socket != "":
	case fallback == "":
		fail("no default path for the socket, because XDG_RUNTIME_DIR is not set: set --socket")
	default:
		fail("--socket: empty: expected a path, for example %s", fallback)
	}
	if c.SocketMode&^fs.ModePerm != 0 {
		fail("--socket-mode: %#o is not a file mode: expected only permission bits, for example 0660", uint32(c.SocketMode))
	}
	if c.PodsAPISocket != "" && c.PodsAPISocket == c.Socket {
		fail("--pods-api-socket: same path as --socket: --socket already serves the Pods API; set another path or remove the flag")
	}
	if c.MetricsBindAddress != "" {
		_, port, err := net.SplitHostPort(c.MetricsBindAddress)
		if err != nil {
			fail("--metrics-bind-address: %w", err)
		} else if _, err := net.LookupPort("tcp", port); err != nil { //nolint:noctx // it reads /etc/services and waits for nothing
			fail("--metrics-bind-address: port %q: expected 0 to 65535, or the name of a service", port)
		}
	}
}

// The largest values of the numbers in Config. They are far beyond practical values, and
// small enough that no sum or product of them overflows.
const (
	maxPeriod            = 24 * time.Hour
	maxSubscribers       = 1 << 20
	maxJournalMaxUpdates = 1 << 24
	maxJournalMaxBytes   = 1 << 40
	minStateMaxBytes     = 1 << 20
	maxStateMaxAge       = 10 * 365 * 24 * time.Hour
)

func (c *Config) validateLimits(fail func(format string, args ...any)) {
	for _, limit := range []struct {
		flag        string
		value, most int64
	}{
		{"--max-subscribers", int64(c.MaxSubscribers), maxSubscribers},
		{"--max-subscribers-per-process", int64(c.MaxSubscribersPerProcess), maxSubscribers},
		{"--journal-max-updates", int64(c.JournalMaxUpdates), maxJournalMaxUpdates},
		{"--journal-max-bytes", c.JournalMaxBytes, maxJournalMaxBytes},
	} {
		switch {
		case limit.value < 1:
			fail("%s: %d is too small: expected 1 or more", limit.flag, limit.value)
		case limit.value > limit.most:
			fail("%s: %d is too large: expected %d or less", limit.flag, limit.value, limit.most)
		}
	}
}

func (c *Config) validatePeriods(fail func(format string, args ...any)) {
	valid := true
	for _, period := range []struct {
		flag               string
		value, least, most time.Duration
	}{
		{"--file-check-frequency", c.FileCheckFrequency, time.Millisecond, maxPeriod},
		{"--http-check-frequency", c.HTTPCheckFrequency, time.Millisecond, maxPeriod},
		{"--pleg-relist-period", c.PLEGRelistPeriod, time.Millisecond, maxPeriod},
		{"--pleg-relist-threshold", c.PLEGRelistThreshold, time.Second, 2 * maxPeriod},
		{"--sync-frequency", c.SyncFrequency, time.Second, maxPeriod},
	} {
		switch {
		case period.value < period.least:
			valid = false
			fail("%s: %v is too short: expected %v or more", period.flag, period.value, period.least)
		case period.value > period.most:
			valid = false
			fail("%s: %v is too long: expected %v or less", period.flag, period.value, period.most)
		}
	}
	// The threshold must be longer than the time between two lists that are on time.
	if least := 2 * c.PLEGRelistPeriod; valid && c.PLEGRelistThreshold < least {
		fail("--pleg-relist-threshold: %v is too short for --pleg-relist-period=%v: expected %v or more",
			c.PLEGRelistThreshold, c.PLEGRelistPeriod, least)
	}
}

func (c *Config) validateState(fail func(format string, args ...any)) {
	if c.StateDir != "" && filepath.Clean(c.StateDir) == filepath.Clean(c.StaticPodPath) {
		fail("--state-dir: same path as --pod-manifest-path: set a directory without manifests")
	}
	switch {
	case c.StateMaxAge < time.Minute:
		fail("--state-max-age: %v is too short: expected %v or more", c.StateMaxAge, time.Minute)
	case c.StateMaxAge > maxStateMaxAge:
		fail("--state-max-age: %v is too long: expected %v or less", c.StateMaxAge, maxStateMaxAge)
	}
	switch {
	case c.StateMaxBytes < minStateMaxBytes:
		fail("--state-max-bytes: %d is too small: expected %d or more", c.StateMaxBytes, minStateMaxBytes)
	case c.StateMaxBytes > maxJournalMaxBytes:
		fail("--state-max-bytes: %d is too large: expected %d or less", c.StateMaxBytes, maxJournalMaxBytes)
	}
}
