package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podconfigd/podconfigd/internal/similar"
)

// secretFlags are flags whose values can have passwords and tokens.
var secretFlags = []string{"manifest-url", "manifest-url-header"}

// flagError adds to the error of a flag what is expected, and removes a value that can be a secret.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasAvailableSubCommands() { // the flag can be one of a command that is unknown
		if unknown := NoArgs(cmd, cmd.Flags().Args()); unknown != nil {
			return unknown
		}
	}
	see := fmt.Sprintf("; see %q", cmd.CommandPath()+" --help")
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if short, _, ok := strings.Cut(unknown.GetSpecifiedShortnames(), "="); ok { // what follows can be a secret
			return fmt.Errorf("unknown shorthand flag: %q in -%s%s", unknown.GetSpecifiedName(), short, see)
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if meant := similar.To(unknown.GetSpecifiedName(), slices.Values(known)); meant != "" {
			see = ": did you mean --" + meant + "?"
		}
		return errors.New(err.Error() + see)
	}
	if _, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok { // it has the argument
		return errors.New("bad flag syntax: expected --name=value" + see)
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := "--" + invalid.GetFlag().Name
	if slices.Contains(secretFlags, invalid.GetFlag().Name) {
		return fmt.Errorf("invalid argument for %q flag: %w", flag, invalid.Unwrap())
	}
	var fault string
	switch kind := invalid.GetFlag().Value.Type(); {
	case errors.Is(err, strconv.ErrRange):
		fault = "out of range"
	case errors.Is(err, strconv.ErrSyntax) && kind == "bool":
		fault = "expected true or false"
	case errors.Is(err, strconv.ErrSyntax) && isInteger(invalid.GetValue()):
		fault = "expected a whole number, 0 or more"
	case errors.Is(err, strconv.ErrSyntax):
		fault = "expected a whole number"
	case kind == "duration":
		fault = "expected a number with a unit, at most 2562047h, for example 90s or 10m"
	default:
		return err
	}
	return fmt.Errorf("invalid argument %q for %q flag: %s%s", invalid.GetValue(), flag, fault, see)
}

func isInteger(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}
