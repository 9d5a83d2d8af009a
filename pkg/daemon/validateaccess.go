package daemon

import (
	"errors"
	"fmt"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// validateAccess checks Access.
func (c *Config) validateAccess(found *faults) {
	if n := len(c.Access); n > access.MaxRules {
		found.add("Access", "%d rules are too many: expected at most %d", n, access.MaxRules)
	}
	for _, f := range access.Validate(c.Access, checkSource) {
		found.add(FieldName(fmt.Sprintf("Access[%d].%s", f.Rule, f.Field)), "%w", f.Err)
	}
}

// checkSource returns an error if no source can have the name.
func checkSource(name string) error {
	if name == config.AllSource {
		return errors.New("leave sources out to select all")
	}
	_, err := config.ParseSource(name)
	return err
}
