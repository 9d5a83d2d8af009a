package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/similar"
)

// NoArgs refuses arguments. For a command with subcommands, the error reports an unknown
// command.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return fmt.Errorf("unexpected argument %q; see %q", args[0], cmd.CommandPath()+" --help")
	}
	names := func(yield func(string) bool) {
		for _, below := range cmd.Commands() {
			if below.IsAvailableCommand() && !yield(below.Name()) {
				return
			}
		}
	}
	meant := similar.To(args[0], names)
	for _, below := range cmd.Commands() {
		if slices.Contains(below.SuggestFor, args[0]) {
			meant = below.Name()
		}
	}
	known := ""
	switch instead := apistatus.InsteadOf(args[0]); {
	case instead != "" && !cmd.HasParent():
		return fmt.Errorf("unknown command %q: %s", args[0], instead)
	case meant != "":
		return fmt.Errorf("unknown command %q: did you mean %q?", args[0], meant)
	case cmd.HasParent():
		known = ": expected one of " + strings.Join(slices.Sorted(names), ", ")
	}
	return fmt.Errorf("unknown command %q%s; see %q", args[0], known, cmd.CommandPath()+" --help")
}

// helpArgs refuses the names of commands that do not exist: cobra prints the help of the one above them.
func helpArgs(cmd *cobra.Command, args []string) error {
	found, unknown, err := cmd.Root().Find(args)
	if err == nil && found.HasAvailableSubCommands() {
		err = NoArgs(found, unknown)
	}
	return err
}

// AtMostOneArg refuses a second argument, and an empty one. what names the argument in errors.
func AtMostOneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return SomeArgs(what, 1)(cmd, args)
	}
}

// SomeArgs requires at least one argument and at most most; 0 is no maximum. It refuses a single
// argument that is empty, which is usually an empty variable of a script. what names the argument
// in errors.
func SomeArgs(what string, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s is missing; see %q", what, cmd.CommandPath()+" --help")
		case most > 0 && len(args) > most:
			return fmt.Errorf("unexpected argument %q; see %q", args[most], cmd.CommandPath()+" --help")
		case most == 1 && args[0] == "":
			return fmt.Errorf("the argument is empty: expected %s; see %q", what, cmd.CommandPath()+" --help")
		}
		return nil
	}
}

// ExitError ends a command that has already printed everything with an exit code.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

var (
	// ErrSilent is the error of a command that has already printed its errors.
	ErrSilent = &ExitError{1}
	// ErrUnhealthy is the error of a command that has printed what is wrong.
	ErrUnhealthy = &ExitError{2}
)
