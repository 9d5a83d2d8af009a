package command

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/term"

	"github.com/podconfigd/podconfigd/internal/option"
)

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
