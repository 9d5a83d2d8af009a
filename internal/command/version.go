package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/internal/version"
)

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
