package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// number has test values for a flag.
type number struct {
	taken, refused []string
	// help is the range in the flag's help.
	help string
	// with are other arguments that are necessary.
	with string
}

// beyond are values that no flag accepts: more than the largest number, one that is not whole, and less than all.
var beyond = []string{"9223372036854775808", "1e308", "-9223372036854775808", "-1"}

// numbers are the flags of commands that take a number.
var numbers = map[string]number{
	"history --last": {taken: []string{"0", "1", "2147483647"}, refused: append(beyond, "2147483648"), help: "0 to 2147483647"},
	"lookup --wait": {
		taken: []string{"0", "0s", "1ns", "1m"}, refused: append(beyond, "-1ns", "-1m", "1m0.000000001s", "2562047h", "2562048h", "1"),
		help: "0s to 1m", with: "1",
	},
	"proxy --port":      {taken: []string{"0", "1", "65535"}, refused: append(beyond, "65536"), help: "0 to 65535"},
	"release --removes": {taken: []string{"0", "1", "2147483647"}, refused: append(beyond, "2147483648"), help: "0 to 2147483647", with: "file"},
	"watch --since":     {taken: []string{"0", "1", "9223372036854775807"}, refused: beyond, help: "0 to 9223372036854775807"},
}

// Each number has a range, which the help contains. Outside of it, the error names the flag.
func TestNumbersOfFlags(t *testing.T) {
	for name, number := range numbers {
		t.Run(name, func(t *testing.T) {
			command, flag, _ := strings.Cut(name, " --")
			give := func(value string) error {
				root := newRootCommand()
				root.SetOut(io.Discard)
				root.SetArgs(append([]string{command, fmt.Sprintf("--%s=%s", flag, value), "--socket="}, strings.Fields(number.with)...))
				if err := root.Execute(); !strings.Contains(err.Error(), "no address of podconfigd") {
					return err
				}
				return nil
			}
			cmd, _, err := newRootCommand().Find([]string{command})
			if err != nil {
				t.Fatal(err)
			}
			if f := cmd.Flags().Lookup(flag); f == nil || !strings.Contains(f.Usage, number.help) {
				t.Errorf("the help does not say %q: %+v", number.help, f)
			}
			for _, value := range number.taken {
				if err := give(value); err != nil {
					t.Errorf("%s is refused: %v", value, err)
				}
			}
			for _, value := range number.refused {
				if err := give(value); err == nil || !strings.Contains(err.Error(), "--"+flag) {
					t.Errorf("%s: %v, want an error that names the flag", value, err)
				}
			}
		})
	}
}

// numbers lists every flag that takes a number, without those of the daemon's configuration.
func TestAllNumbersOfFlagsAreTried(t *testing.T) {
	types := []string{"bool", "string", "stringSlice", "stringArray", "name:value"}
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			_, tried := numbers[cmd.Name()+" --"+flag.Name]
			if !tried && !flag.Hidden && !slices.Contains(types, flag.Value.Type()) && cmd.Parent().Name() != "config" {
				t.Errorf("%s --%s is of type %s, and not tried", cmd.CommandPath(), flag.Name, flag.Value.Type())
			}
		})
		for _, below := range cmd.Commands() {
			look(below)
		}
	}
	look(newRootCommand())
}
