package daemon

import (
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/internal/socketpath"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/pleg/cri"
	"github.com/podconfigd/podconfigd/pkg/server"
)

// Validate returns every fault of the configuration in one error. It joins a [*FieldError]
// for each fault.
func (c *Config) Validate() error {
	var found faults
	c.validateSources(&found)
	c.validateHTTP(&found)
	c.validateSockets(&found)
	c.validateLimits(&found)
	c.validatePeriods(&found)
	c.validateState(&found)
	c.validateTracing(&found)
	c.validateAccess(&found)
	if _, err := config.ParseRemovalLimit(c.RemovalBrake); err != nil {
		found.add("RemovalBrake", "%w", err)
	}
	if err := kubelet.CheckVersion(c.KubeletVersion); err != nil {
		found.add("KubeletVersion", "%w", err)
	}
	if err := kubelet.CheckPresence(c.KubeletPresence); err != nil {
		found.add("KubeletPresence", "%w", err)
	}
	if c.ContainerRuntimeEndpoint != "" {
		if _, err := cri.SocketPath(c.ContainerRuntimeEndpoint); err != nil {
			found.add("ContainerRuntimeEndpoint", "%w", err)
		}
	}
	if c.NodeName != "" {
		if _, err := NodeName(c.NodeName); err != nil {
			found.add("NodeName", "%w", err)
		}
	}
	if _, err := parseNodeIP(c.NodeIP); err != nil {
		found.add("NodeIP", "%w", err)
	}
	if c.RuntimeStatusAPIPods && (!c.RuntimeStatus || c.ContainerRuntimeEndpoint == "" || !c.apiserver()) {
		found.add("RuntimeStatusAPIPods", "requires %v, %v and %v",
			FieldName("RuntimeStatus"), FieldName("ContainerRuntimeEndpoint"), FieldName("Kubeconfig"))
	}
	if c.NamespaceMetadata && !c.apiserver() {
		found.add("NamespaceMetadata", "requires %v", FieldName("Kubeconfig"))
	}
	if c.CreateMirrorPods && !c.apiserver() {
		found.add("CreateMirrorPods", "requires %v", FieldName("Kubeconfig"))
	}
	return errors.Join(found...)
}

func (c *Config) validateHTTP(found *faults) {
	const url, cert, key = FieldName("StaticPodURL"), FieldName("StaticPodURLCertFile"), FieldName("StaticPodURLKeyFile")
	if c.StaticPodURL == "" && len(c.HTTPSources) == 0 {
		for _, field := range []struct {
			name FieldName
			set  bool
		}{
			{"StaticPodURLHeader", len(c.StaticPodURLHeader) > 0},
			{"StaticPodURLCAFile", c.StaticPodURLCAFile != ""},
			{cert, c.StaticPodURLCertFile != ""},
			{key, c.StaticPodURLKeyFile != ""},
			{"StaticPodURLTokenFile", c.StaticPodURLTokenFile != ""},
		} {
			if field.set {
				found.add(field.name, "requires %v", url)
			}
		}
	}
	if c.StaticPodURLCertFile != "" && c.StaticPodURLKeyFile == "" {
		found.add(cert, "requires %v", key)
	}
	if c.StaticPodURLKeyFile != "" && c.StaticPodURLCertFile == "" {
		found.add(key, "requires %v", cert)
	}
}

// validateSocketPath refuses what would be a directory. The path of a configuration file has its
// directory before an address that is not a path.
func validateSocketPath(found *faults, field FieldName, path string) {
	switch {
	case slices.Contains(strings.Split(path, "/"), server.SchemeUnix+":"):
		found.add(field, "%q: expected a path: leave out unix://", path)
	case strings.HasSuffix(path, "/"):
		found.add(field, "%q: the path is a directory: expected the path of a socket", path)
	default:
		if err := server.CheckSocketPath(path); err != nil {
			found.add(field, "%w", err)
		}
	}
}

func (c *Config) validateSockets(found *faults) {
	validateSocketPath(found, "Socket", c.Socket)
	validateSocketPath(found, "PodsAPISocket", c.PodsAPISocket)
	switch fallback := socketpath.Default(); {
	case c.Socket != "":
	case fallback == "":
		found.add("", "no default path for the socket, because XDG_RUNTIME_DIR is not set: set %v", FieldName("Socket"))
	default:
		found.add("Socket", "empty: expected a path, for example %s", fallback)
	}
	if c.SocketMode&^fs.ModePerm != 0 {
		found.add("SocketMode", "%#o is not a file mode: expected only permission bits, for example 0660", uint32(c.SocketMode))
	}
	if err := server.CheckGroup(c.SocketGroup); err != nil {
		found.add("SocketGroup", "%w", err)
	}
	if c.PodsAPISocket != "" && c.PodsAPISocket == c.Socket {
		found.add("PodsAPISocket", "same path as %v, which already serves the Pods API: set another path or none", FieldName("Socket"))
	}
	c.validateListen(found)
	if c.MetricsBindAddress != "" {
		_, port, err := net.SplitHostPort(c.MetricsBindAddress)
		if err != nil {
			found.add("MetricsBindAddress", "%w", err)
		} else if _, err := net.LookupPort("tcp", port); err != nil { //nolint:noctx // it reads /etc/services and waits for nothing
			found.add("MetricsBindAddress", "port %q: expected 0 to 65535, or the name of a service", port)
		}
	}
}

// The largest values of the numbers in Config. They are far beyond practical values, and
// small enough that no sum or product of them overflows.
const (
	maxPeriod            = 24 * time.Hour
	maxSubscribers       = 1 << 20
	maxEventRate         = 1_000_000
	maxJournalMaxUpdates = 1 << 24
	maxJournalMaxBytes   = 1 << 40
	minStateMaxBytes     = 1 << 20
	maxStateMaxAge       = 10 * 365 * 24 * time.Hour
)

func (c *Config) validateLimits(found *faults) {
	for _, limit := range []struct {
		field              FieldName
		value, least, most int64
	}{
		{"EventRecordQPS", int64(c.EventRecordQPS), 0, maxEventRate},
		{"EventBurst", int64(c.EventBurst), 0, maxEventRate},
		{"MaxSubscribers", int64(c.MaxSubscribers), 1, maxSubscribers},
		{"MaxSubscribersPerProcess", int64(c.MaxSubscribersPerProcess), 1, maxSubscribers},
		{"JournalMaxUpdates", int64(c.JournalMaxUpdates), 1, maxJournalMaxUpdates},
		{"JournalMaxBytes", c.JournalMaxBytes, 1, maxJournalMaxBytes},
	} {
		switch {
		case limit.value < limit.least:
			found.add(limit.field, "%d is too small: expected %d or more", limit.value, limit.least)
		case limit.value > limit.most:
			found.add(limit.field, "%d is too large: expected %d or less", limit.value, limit.most)
		}
	}
}

func (c *Config) validatePeriods(found *faults) {
	invalid := make(map[FieldName]bool)
	for _, period := range []struct {
		field              FieldName
		value, least, most time.Duration
	}{
		{"FileCheckFrequency", c.FileCheckFrequency, time.Millisecond, maxPeriod},
		{"HTTPCheckFrequency", c.HTTPCheckFrequency, time.Millisecond, maxPeriod},
		{"PLEGRelistPeriod", c.PLEGRelistPeriod, time.Millisecond, maxPeriod},
		{"PLEGRelistThreshold", c.PLEGRelistThreshold, time.Second, 2 * maxPeriod},
		{"SyncFrequency", c.SyncFrequency, time.Second, maxPeriod},
	} {
		switch {
		case period.value < period.least:
			invalid[period.field] = true
			found.add(period.field, "%v is too short: expected %v or more", period.value, period.least)
		case period.value > period.most:
			invalid[period.field] = true
			found.add(period.field, "%v is too long: expected %v or less", period.value, period.most)
		}
	}
	// The threshold must be longer than the time between two lists that are on time.
	if least := 2 * c.PLEGRelistPeriod; !invalid["PLEGRelistPeriod"] && !invalid["PLEGRelistThreshold"] && c.PLEGRelistThreshold < least {
		found.add("PLEGRelistThreshold", "%v is too short for %v=%v: expected %v or more",
			c.PLEGRelistThreshold, FieldName("PLEGRelistPeriod"), c.PLEGRelistPeriod, least)
	}
}

func (c *Config) validateState(found *faults) {
	switch {
	case c.StateMaxAge < time.Minute:
		found.add("StateMaxAge", "%v is too short: expected %v or more", c.StateMaxAge, time.Minute)
	case c.StateMaxAge > maxStateMaxAge:
		found.add("StateMaxAge", "%v is too long: expected %v or less", c.StateMaxAge, maxStateMaxAge)
	}
	switch {
	case c.StateMaxBytes < minStateMaxBytes:
		found.add("StateMaxBytes", "%d is too small: expected %d or more", c.StateMaxBytes, minStateMaxBytes)
	case c.StateMaxBytes > maxJournalMaxBytes:
		found.add("StateMaxBytes", "%d is too large: expected %d or less", c.StateMaxBytes, maxJournalMaxBytes)
	}
}
