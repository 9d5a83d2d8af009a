package daemon

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/podconfigd/podconfigd/pkg/server"
)

// listensOn reports whether an address of Listen has one of the schemes.
func (c *Config) listensOn(schemes ...string) bool {
	return slices.ContainsFunc(c.Listen, func(text string) bool {
		address, err := server.ParseAddress(text)
		return err == nil && slices.Contains(schemes, address.Scheme)
	})
}

// validateListen checks Listen.
func (c *Config) validateListen(found *faults) {
	var seen []server.Address
	for i, text := range c.Listen {
		field := FieldName(fmt.Sprintf("Listen[%d]", i))
		address, err := server.ParseAddress(text)
		switch {
		case err != nil:
			found.add(field, "%w", err)
		case address.Scheme == server.SchemeUnix && address.Path == filepath.Clean(c.Socket):
			found.add(field, "%q: same path as %v: remove one of them", text, FieldName("Socket"))
		case address.Scheme == server.SchemeUnix && c.PodsAPISocket != "" && address.Path == filepath.Clean(c.PodsAPISocket):
			found.add(field, "%q: same path as %v: remove one of them", text, FieldName("PodsAPISocket"))
		case address.Scheme == server.SchemeUnix && server.CheckSocketPath(address.Path) != nil:
			found.add(field, "%q: %w", text, server.CheckSocketPath(address.Path))
		case slices.ContainsFunc(seen, address.Same):
			found.add(field, "%q: given twice: remove one of them", text)
		}
		seen = append(seen, address)
	}
	c.validateHTTPS(found)
}

// validateHTTPS checks the fields that are for https addresses.
func (c *Config) validateHTTPS(found *faults) {
	const cert, key, mode = FieldName("TLSCertFile"), FieldName("TLSPrivateKeyFile"), FieldName("Authorization.Mode")
	const kubeconfig = FieldName("Kubeconfig")
	if c.TLSCertFile != "" && c.TLSPrivateKeyFile == "" {
		found.add(cert, "requires %v", key)
	}
	if c.TLSPrivateKeyFile != "" && c.TLSCertFile == "" {
		found.add(key, "requires %v", cert)
	}
	c.validateTTLs(found)
	m := c.Authorization.Mode
	if m != "" && m != modeWebhook && m != modeAlwaysAllow {
		found.add(mode, "%q is unknown: expected %s or %s", m, modeWebhook, modeAlwaysAllow)
	}
	if !c.listensOn(server.SchemeHTTPS) {
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
	case a.Webhook && !c.apiserver():
		found.add("Authentication.Webhook", "requires %v", kubeconfig)
	case !c.apiserver() && a.ClientCAFile == "" && a.TokenAuthFile == "" && !a.Anonymous:
		found.add("Listen", "https requires a way to authenticate clients: set %v, %v, %v or %v",
			FieldName("Authentication.ClientCAFile"), FieldName("Authentication.TokenAuthFile"), kubeconfig, FieldName("Authentication.Anonymous"))
	}
}

func (c *Config) validateTTLs(found *faults) {
	for _, ttl := range []struct {
		field FieldName
		value time.Duration
	}{
		{"Authentication.WebhookCacheTTL", c.Authentication.WebhookCacheTTL},
		{"Authorization.CacheAuthorizedTTL", c.Authorization.CacheAuthorizedTTL},
		{"Authorization.CacheUnauthorizedTTL", c.Authorization.CacheUnauthorizedTTL},
	} {
		switch {
		case ttl.value < 0:
			found.add(ttl.field, "%v is too short: expected 0s for the default, or more", ttl.value)
		case ttl.value > maxPeriod:
			found.add(ttl.field, "%v is too long: expected %v or less", ttl.value, maxPeriod)
		}
	}
}
