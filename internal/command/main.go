// Package command has what the commands of both programs share: how a program runs its root command, help,
// arguments, the errors of flags, objects as output, and the version.
//
//	func main() { os.Exit(command.Main(newRootCommand())) }
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/internal/version"
)

// printTimeout is how long a program waits at its end for its error to be written.
const printTimeout = time.Second

// SetUp adds to a root command what both programs have: the version, help, completions, and errors that say what is expected.
func SetUp(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.AddCommand(newVersionCommand())
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultCompletionCmd()
	for _, group := range append(root.Commands(), root) {
		if !group.Runnable() {
			group.Args, group.DisableFlagsInUseLine = NoArgs, true
			group.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	addVersionFlag(root)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = helpArgs
	}
}

// Main runs a program until its command ends, or a signal ends it. It returns the exit code.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stderr := printable.Writer(os.Stderr) // errors have texts of others
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		fmt.Fprintln(stderr, root.Name()+":", err)
	}()
	select {
	case <-printed:
	case <-time.After(printTimeout): // stderr is blocked
	}
	return 1
}

// CheckOutput returns an error if the format is not a known one. "" is the table.
func CheckOutput(format string, known ...string) error {
	if format == "" || slices.Contains(known, format) {
		return nil
	}
	return fmt.Errorf("--output: unknown format %q: expected one of %s", format, strings.Join(known, ", "))
}

// PrintObject prints an object as json or yaml.
func PrintObject(w io.Writer, format string, v any) error {
	if format == "yaml" {
		data, err := printable.YAML(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	return printJSON(w, v, "    ")
}

// PrintLine prints one of the objects of a stream: json as a line, yaml as a document.
func PrintLine(w io.Writer, format string, v any) error {
	if format == "json" {
		return printJSON(w, v, "")
	}
	if _, err := io.WriteString(w, "---\n"); err != nil {
		return err
	}
	return PrintObject(w, format, v)
}

// printJSON prints an object as JSON. What is not printable is escaped, and all values stay the same.
func printJSON(w io.Writer, v any, indent string) error {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, printable.JSON(text.String(), "\n"))
	return err
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the version of the kubelet whose rules for pods it follows",
		Args:  NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := CheckOutput(output, "json", "yaml"); err != nil {
				return err
			}
			if output != "" {
				return PrintObject(cmd.OutOrStdout(), output, version.Get())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine(cmd.Root().Name()))
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: json, yaml. If empty, prints one line.")
	CompleteFlag(cmd, "output", "json", "yaml")
	return cmd
}

// addVersionFlag adds the flag --version to the root command. That of cobra needs a template to print
// the same line as the command: docs/adr/0012-a-binary-without-unused-methods.md.
func addVersionFlag(cmd *cobra.Command) {
	asked := cmd.Flags().Bool("version", false, "Print the version, as the command version does.")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine(cmd.Root().Name()))
			return err
		}
		return run(cmd, args)
	}
}

// versionLine is what the command and the flag --version print.
func versionLine(program string) string {
	info := version.Get()
	rules := "client commands only"
	if info.KubeletVersion != "" {
		rules = "rules of kubelet " + info.KubeletVersion
	}
	return fmt.Sprintf("%s %s, %s, %s, %s", program, info.Version, rules, info.GoVersion, info.Platform)
}
