package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/term"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/option"
	"github.com/podconfigd/podconfigd/internal/similar"
)

// CompleteFlag completes a flag with a closed set.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	// It fails only if there is no such flag.
	_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteOptions completes the flags of the daemon's options.
func CompleteOptions(cmd *cobra.Command) {
	for i := range v1alpha1.Options {
		if option := &v1alpha1.Options[i]; len(option.Values) > 0 && option.Flag != "" {
			CompleteFlag(cmd, option.Flag, option.Values...)
		}
	}
	CompleteFlag(cmd, "logging-format", "text", "json")
}

// SetSection puts flags under a heading of the help.
func SetSection(flags *pflag.FlagSet, section string, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, option.SectionKey, []string{section}) // fails only if there is no such flag
	}
}

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

// firstSections come before the others, which are in the order of their flags. Flags without a section come first.
var firstSections = []string{"", "Source", "Configuration file"}

// helpWidth is the width of the help if the output is not a terminal, or one narrower than minHelpWidth.
const helpWidth, minHelpWidth = 100, 40

// usage writes the usage of a command, as cobra does, but the flags under their headings. A template would link what
// the binary does not use.
func usage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(w, "\nAliases:\n  %s\n", cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w, "\nAvailable Commands:")
		for _, below := range cmd.Commands() {
			if below.IsAvailableCommand() || below.Name() == "help" {
				fmt.Fprintf(w, "  %-*s %s\n", below.NamePadding(), below.Name(), below.Short)
			}
		}
	}
	writeFlags(w, cmd)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse %q for more information about a command.\n", cmd.CommandPath()+" [command] --help")
	}
	return nil
}

// writeFlags writes the flags of a command under their headings.
func writeFlags(w io.Writer, cmd *cobra.Command) {
	sections, order := map[string]*pflag.FlagSet{}, slices.Clone(firstSections)
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		section := strings.Join(flag.Annotations[option.SectionKey], "")
		if sections[section] == nil {
			sections[section] = pflag.NewFlagSet(section, pflag.ContinueOnError)
			sections[section].SortFlags = false
			order = append(order, section)
		}
		sections[section].AddFlag(flag)
	})
	width, _, err := term.TerminalSize(os.Stdout)
	if err != nil || width < minHelpWidth {
		width = helpWidth
	}
	for i, section := range order {
		if flags := sections[section]; flags != nil && flags.HasAvailableFlags() && !slices.Contains(order[:i], section) {
			heading := "Flags"
			if section != "" {
				heading = section + " flags"
			}
			fmt.Fprintf(w, "\n%s:\n", heading)
			for line := range strings.Lines(flags.FlagUsagesWrapped(wrapped(flags, width))) {
				fmt.Fprintln(w, strings.TrimRight(line, " \n"))
			}
		}
	}
}

// wrapped returns the width for flags in a help of a width. If their names leave a narrow column, the texts start on
// lines of their own, as pflag does for less than 24 columns.
func wrapped(flags *pflag.FlagSet, width int) int {
	const narrow, pflagNarrow = 45, 24
	names := 0
	flags.VisitAll(func(flag *pflag.Flag) {
		value, _ := pflag.UnquoteUsage(flag)
		names = max(names, len("      --")+len(flag.Name)+len(" ")+len(value)+len("   "))
	})
	if width-names < narrow {
		return min(width, names+pflagNarrow-1)
	}
	return width
}
