package daemon

import (
	"path/filepath"
	"slices"

	"github.com/podconfigd/podconfigd/pkg/server/socket"
)

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
			found.add(field, "%w", err)
		case address.Scheme == socket.SchemeUnix && address.Path == filepath.Clean(*c.Socket):
			found.add(field, "%q: same path as %v: remove one of them", text, FieldName("socket"))
		case address.Scheme == socket.SchemeUnix && c.PodsAPISocket != "" && address.Path == filepath.Clean(c.PodsAPISocket):
			found.add(field, "%q: same path as %v: remove one of them", text, FieldName("podsAPISocket"))
		case address.Scheme == socket.SchemeUnix && socket.CheckPath(address.Path) != nil:
			found.add(field, "%q: %w", text, socket.CheckPath(address.Path))
		case slices.ContainsFunc(seen, address.Same):
			found.add(field, "%q: given twice: remove one of them", text)
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
		found.add(mode, "%s requires %v", m, kubeconfig)
	case m == "" && !c.apiserver():
		found.add(mode, "the default %s requires %v: set that, or %s to allow everything to users that are authenticated", modeWebhook, kubeconfig, modeAlwaysAllow)
	}
	a := &c.Authentication
	switch {
	case a.Webhook.Enabled && !c.apiserver():
		found.add("authentication.webhook.enabled", "requires %v", kubeconfig)
	case !c.apiserver() && a.X509.ClientCAFile == "" && a.TokenAuthFile == "" && !a.Anonymous.Enabled:
		found.add("listen", "https requires a way to authenticate clients: set %v, %v, %v or %v",
			FieldName("authentication.x509.clientCAFile"), FieldName("authentication.tokenAuthFile"), kubeconfig, FieldName("authentication.anonymous.enabled"))
	}
}
