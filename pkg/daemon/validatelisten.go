package daemon

import (
	"path/filepath"
	"slices"

	"github.com/podconfigd/podconfigd/pkg/server"
)

// validateListen checks Listen.
func (c *Config) validateListen(found *faults) {
	var seen []server.Address
	for _, text := range c.Listen {
		address, err := server.ParseAddress(text)
		switch {
		case err != nil:
			found.add("Listen", "%w", err)
		case address.Scheme == server.SchemeHTTPS:
			found.add("Listen", "%q: https is not supported yet", text)
		case address.Scheme == server.SchemeUnix && address.Path == filepath.Clean(c.Socket):
			found.add("Listen", "%q: same path as %v: remove one of them", text, FieldName("Socket"))
		case address.Scheme == server.SchemeUnix && c.PodsAPISocket != "" && address.Path == filepath.Clean(c.PodsAPISocket):
			found.add("Listen", "%q: same path as %v: remove one of them", text, FieldName("PodsAPISocket"))
		case slices.ContainsFunc(seen, address.Same):
			found.add("Listen", "%q: given twice: remove one of them", text)
		}
		seen = append(seen, address)
	}
}
