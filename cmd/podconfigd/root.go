package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRootCommand returns the command of the daemon with its subcommands.
func newRootCommand() *cobra.Command {
	cmd := newDaemonCommand()
	cmd.AddCommand(newWatchCommand(), newGetCommand(), newStatusCommand(), newTopCommand(), newHistoryCommand(), newLookupCommand(),
		newResyncCommand(), newReleaseCommand(), newProxyCommand(), newVersionCommand())
	cmd.AddCommand(daemonCommands()...)
	addVersionFlag(cmd)
	cmd.SetUsageFunc(usage)
	cmd.SetFlagErrorFunc(flagError)
	cmd.InitDefaultCompletionCmd()
	for _, group := range cmd.Commands() {
		if !group.Runnable() {
			group.Args, group.DisableFlagsInUseLine = noArgs, true
			group.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return cmd
}

// secretFlags are flags whose values can have passwords and tokens.
var secretFlags = []string{"manifest-url", "manifest-url-header"}

// flagError adds to the error of a flag what is expected, and removes a value that can be a secret.
func flagError(cmd *cobra.Command, err error) error {
	see := fmt.Sprintf("; see %q", cmd.CommandPath()+" --help")
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if short, _, cut := strings.Cut(unknown.GetSpecifiedShortnames(), "="); cut { // what follows can be a secret
			return fmt.Errorf("unknown shorthand flag: %q in -%s%s", unknown.GetSpecifiedName(), short, see)
		}
		if unknown.GetSpecifiedName() == "sort-by" {
			see = "; podconfigd does not sort: " + useKubectl
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

// noArgs refuses arguments. For a command with subcommands, the error reports an unknown
// command.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	what := "unexpected argument"
	if cmd.HasAvailableSubCommands() {
		what = "unknown command"
	}
	return fmt.Errorf("%s %q; see %q", what, args[0], cmd.CommandPath()+" --help")
}

// atMostOneArg refuses a second argument, and an empty one. what names the argument in errors.
func atMostOneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return someArgs(what, 1)(cmd, args)
	}
}

// someArgs requires at least one argument and at most most; 0 is no maximum. It refuses a single
// argument that is empty, which is usually an empty variable of a script. what names the argument
// in errors.
func someArgs(what string, most int) cobra.PositionalArgs {
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
