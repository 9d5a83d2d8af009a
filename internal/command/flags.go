package command

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/option"
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
