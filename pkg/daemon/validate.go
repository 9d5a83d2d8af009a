package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	stream "github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/kubelet"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg/cri"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
)

// Validate sets the fields that are left out, and returns every fault of the configuration in one error. It joins
// a [*FieldError] for each fault.
func (c *Config) Validate() error {
	c.setDefaults()
	var found faults
	c.validateSources(&found)
	c.validateHTTP(&found)
	c.validateSockets(&found)
	c.validateKubeletSockets(&found)
	for _, fault := range v1alpha1.Options.Check(&c.PodConfigdConfiguration) {
		found.addFault(FieldName(fault.Path), "%s", fault.Message)
	}
	c.validateThreshold(&found)
	c.validateAccess(&found)
	check := func(field FieldName, err error) {
		if err != nil {
			found.addFault(field, "%w", err)
		}
	}
	if c.RemovalBrake != nil {
		_, err := config.ParseRemovalLimit(c.RemovalBrake.String())
		check("removalBrake", err)
	}
	check("kubeletVersion", kubelet.CheckVersion(*c.KubeletVersion))
	if c.ContainerRuntimeEndpoint != "" {
		_, err := cri.SocketPath(c.ContainerRuntimeEndpoint)
		check("containerRuntimeEndpoint", err)
	}
	if c.HostnameOverride != "" {
		_, err := manifest.NodeName(c.HostnameOverride)
		check("hostnameOverride", err)
	}
	_, err := parseNodeIP(c.NodeIP)
	check("nodeIP", err)
	c.validateRequirements(&found)
	return errors.Join(found...)
}

// validateRequirements checks the fields that require others.
func (c *Config) validateRequirements(found *faults) {
	if c.RuntimeStatusAPIPods && (!*c.RuntimeStatus || c.ContainerRuntimeEndpoint == "" || !c.apiserver()) {
		found.addFault("runtimeStatusAPIPods", "requires %v, %v and %v",
			FieldName("runtimeStatus"), FieldName("containerRuntimeEndpoint"), FieldName("kubeconfig"))
	}
	if c.NamespaceMetadata && !c.apiserver() {
		found.addFault("namespaceMetadata", "requires %v", FieldName("kubeconfig"))
	}
	if c.CreateMirrorPods && !c.apiserver() {
		found.addFault("createMirrorPods", "requires %v", FieldName("kubeconfig"))
	}
	if c.Owners && !c.apiserver() {
		found.addFault("owners", "requires %v", FieldName("kubeconfig"))
	}
}

// pair checks that a certificate has its key, and a key its certificate.
func (f *faults) pair(cert FieldName, certFile string, key FieldName, keyFile string) {
	if certFile != "" && keyFile == "" {
		f.addFault(cert, "requires %v", key)
	}
	if keyFile != "" && certFile == "" {
		f.addFault(key, "requires %v", cert)
	}
}

func (c *Config) validateHTTP(found *faults) {
	if c.StaticPodURL == "" && len(c.HTTPSources) == 0 {
		for _, field := range []struct {
			name FieldName
			set  bool
		}{
			{"staticPodURLHeader", len(c.StaticPodURLHeader) > 0},
			{"staticPodURLCAFile", c.StaticPodURLCAFile != ""},
			{"staticPodURLCertFile", c.StaticPodURLCertFile != ""},
			{"staticPodURLKeyFile", c.StaticPodURLKeyFile != ""},
			{"staticPodURLTokenFile", c.StaticPodURLTokenFile != ""},
		} {
			if field.set {
				found.addFault(field.name, "requires %v", FieldName("staticPodURL"))
			}
		}
	}
	found.pair("staticPodURLCertFile", c.StaticPodURLCertFile, "staticPodURLKeyFile", c.StaticPodURLKeyFile)
}

// validateSocketPath refuses a directory, and an address in place of a path. In a configuration
// file, an address becomes a path relative to the directory of the file, so the scheme can be in
// the middle.
func validateSocketPath(found *faults, field FieldName, path string) {
	switch {
	case slices.Contains(strings.Split(path, "/"), socket.SchemeUnix+":"):
		found.addFault(field, "%q: expected a path: leave out unix://", path)
	case strings.HasSuffix(path, "/"):
		found.addFault(field, "%q: the path is a directory: expected the path of a socket", path)
	default:
		if err := socket.CheckPath(path); err != nil {
			found.addFault(field, "%w", err)
		}
	}
}

func (c *Config) validateSockets(found *faults) {
	validateSocketPath(found, "socket", *c.Socket)
	validateSocketPath(found, "podsAPISocket", c.PodsAPISocket)
	switch fallback := stream.DefaultSocket(); {
	case *c.Socket != "":
	case fallback == "":
		found.addFault("", "no default path for the socket, because XDG_RUNTIME_DIR is not set: set %v", FieldName("socket"))
	default:
		found.addFault("socket", "empty: expected a path, for example %s", fallback)
	}
	if _, err := parseMode(*c.SocketMode); err != nil {
		found.addFault("socketMode", "%w", err)
	}
	if err := socket.CheckGroup(c.SocketGroup); err != nil {
		found.addFault("socketGroup", "%w", err)
	}
	if c.PodsAPISocket != "" && c.PodsAPISocket == *c.Socket {
		found.addFault("podsAPISocket", "same path as %v, which already serves the Pods API: set another path or none", FieldName("socket"))
	}
	c.validateListen(found)
	if c.MetricsBindAddress != "" {
		_, port, err := net.SplitHostPort(c.MetricsBindAddress)
		if err != nil {
			found.addFault("metricsBindAddress", "%w", err)
		} else if _, err := net.LookupPort("tcp", port); err != nil { //nolint:noctx // it reads /etc/services and waits for nothing
			found.addFault("metricsBindAddress", "port %q: expected 0 to 65535, or the name of a service", port)
		}
	}
}

// parseMode returns the mode of a socket.
func parseMode(s string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(s, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("%q is not a file mode: expected octal digits, 0 to 0777, for example 0660", s)
	}
	return fs.FileMode(mode), nil
}

// validateThreshold checks that the threshold is longer than the time between two lists that are on time.
func (c *Config) validateThreshold(found *faults) {
	least := 2 * c.PLEGRelistPeriod.Duration
	if c.PLEGRelistThreshold.Duration < least && !found.has("plegRelistPeriod") && !found.has("plegRelistThreshold") {
		found.addFault("plegRelistThreshold", "%v is too short for %v=%v: expected %v or more",
			c.PLEGRelistThreshold.Duration, FieldName("plegRelistPeriod"), c.PLEGRelistPeriod.Duration, least)
	}
}

// listensOn reports whether an address of Listen has one of the schemes.
func (c *Config) listensOn(schemes ...string) bool {
	return slices.ContainsFunc(c.Listen, func(text string) bool {
		address, err := socket.ParseAddress(text)
		return err == nil && slices.Contains(schemes, address.Scheme)
	})
}

// validateListen checks Listen.
func (c *Config) validateListen(found *faults) {
	var seen []socket.Address
	for i, text := range c.Listen {
		field := indexed("listen", i)
		address, err := socket.ParseAddress(text)
		switch {
		case err != nil:
			found.addFault(field, "%w", err)
		case address.Scheme == socket.SchemeUnix && address.Path == filepath.Clean(*c.Socket):
			found.addFault(field, "%q: same path as %v: remove one of them", text, FieldName("socket"))
		case address.Scheme == socket.SchemeUnix && c.PodsAPISocket != "" && address.Path == filepath.Clean(c.PodsAPISocket):
			found.addFault(field, "%q: same path as %v: remove one of them", text, FieldName("podsAPISocket"))
		case address.Scheme == socket.SchemeUnix && socket.CheckPath(address.Path) != nil:
			found.addFault(field, "%q: %w", text, socket.CheckPath(address.Path))
		case slices.ContainsFunc(seen, address.Same):
			found.addFault(field, "%q: given twice: remove one of them", text)
		}
		seen = append(seen, address)
	}
	c.validateHTTPS(found)
}

// validateHTTPS checks the fields that are for https addresses.
func (c *Config) validateHTTPS(found *faults) {
	const mode, kubeconfig = FieldName("authorization.mode"), FieldName("kubeconfig")
	found.pair("tlsCertFile", c.TLSCertFile, "tlsPrivateKeyFile", c.TLSPrivateKeyFile)
	m := c.Authorization.Mode
	if !c.listensOn(socket.SchemeHTTPS) {
		return // the other fields have no effect
	}
	switch {
	case m == modeWebhook && !c.apiserver():
		found.addFault(mode, "%s requires %v", m, kubeconfig)
	case m == "" && !c.apiserver():
		found.addFault(mode, "the default %s requires %v: set that, or %s to allow everything to users that are authenticated", modeWebhook, kubeconfig, modeAlwaysAllow)
	}
	a := &c.Authentication
	switch {
	case a.Webhook.Enabled && !c.apiserver():
		found.addFault("authentication.webhook.enabled", "requires %v", kubeconfig)
	case !c.apiserver() && a.X509.ClientCAFile == "" && a.TokenAuthFile == "" && !a.Anonymous.Enabled:
		found.addFault("listen", "https requires a way to authenticate clients: set %v, %v, %v or %v",
			FieldName("authentication.x509.clientCAFile"), FieldName("authentication.tokenAuthFile"), kubeconfig, FieldName("authentication.anonymous.enabled"))
	}
}

// FieldName is the path of a field of the configuration file. A field of a field has dots, and an item of a
// list its index: fileSources[1].path.
type FieldName string

// String returns the flag that sets the field, or the path if there is no flag.
func (n FieldName) String() string {
	if flag := v1alpha1.Options.Flag(string(n)); flag != "" {
		return "--" + flag
	}
	return string(n)
}

// FieldError is a fault of a field of the configuration. Its text names fields by their flags. Text and
// Fields are for a configuration that is not from flags.
type FieldError struct {
	// Field is the faulty field; empty if the fault is not that of one field.
	Field FieldName
	// format and args are the message. An arg can be a FieldName.
	format string
	args   []any
}

// Error returns the fault with the flag of its field in front.
func (e *FieldError) Error() string {
	message := e.Text(FieldName.String)
	if e.Field != "" {
		message = e.Field.String() + ": " + message
	}
	return message
}

// Text returns the message without the field of the fault. It names other fields with the
// function.
func (e *FieldError) Text(name func(FieldName) string) string {
	args := slices.Clone(e.args)
	for i, arg := range args {
		if field, ok := arg.(FieldName); ok {
			args[i] = name(field)
		}
	}
	return fmt.Errorf(e.format, args...).Error()
}

// Fields returns the faulty field, and then the fields that the message names.
func (e *FieldError) Fields() (fields []FieldName) {
	if e.Field != "" {
		fields = append(fields, e.Field)
	}
	for _, arg := range e.args {
		if field, ok := arg.(FieldName); ok {
			fields = append(fields, field)
		}
	}
	return fields
}

// Unwrap returns the cause, or nil.
func (e *FieldError) Unwrap() error { return errors.Unwrap(fmt.Errorf(e.format, e.args...)) }

// faults are the faults of a configuration.
type faults []error

// has reports whether the field has a fault.
func (f *faults) has(field FieldName) bool {
	return slices.ContainsFunc(*f, func(err error) bool { fault, ok := errors.AsType[*FieldError](err); return ok && fault.Field == field })
}

// addFault adds a fault of the field. Args that are fields appear by their flag or by their path
// in the config file, as the configuration was made.
func (f *faults) addFault(field FieldName, format string, args ...any) {
	*f = append(*f, &FieldError{Field: field, format: format, args: args})
}
