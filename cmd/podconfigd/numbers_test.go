package main

import (
	"errors"
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
	// with are other flags that are necessary.
	with string
}

// beyond are values that no flag accepts: the largest number, one more, and a number that
// is not whole.
var (
	beyond         = []string{"9223372036854775807", "9223372036854775808", "1e308", "-9223372036854775808"}
	beyondDuration = []string{"2562047h", "2562048h", "-2562047h", "0", "-1ns", "-1s"}
)

// numbers are all flags that take a number, by command.
var numbers = map[string]map[string]number{
	"podconfigd": {
		"file-check-frequency":             period("1ms", "24h", "999µs", "24h0m0.000000001s"),
		"http-check-frequency":             period("1ms", "24h", "999µs", "24h0m0.000000001s"),
		"sync-frequency":                   period("1s", "24h", "999ms", "24h0m0.000000001s"),
		"kubelet-pods-api-check-frequency": period("1s", "24h", "999ms", "24h0m0.000000001s"),
		"pleg-relist-period":               period("1ms", "24h", "999µs", "24h0m0.000000001s").and("--pleg-relist-threshold=48h"),
		"pleg-relist-threshold":            period("1s", "48h", "999ms", "48h0m0.000000001s").and("--pleg-relist-period=1ms"),
		"max-subscribers":                  integer("1", "1048576", "1048577"),
		"max-subscribers-per-process":      integer("1", "1048576", "1048577"),
		"journal-max-updates":              integer("1", "16777216", "16777217"),
		"journal-max-bytes":                integer("1", "1099511627776", "1099511627777"),
		"state-max-age":                    period("1m", "87600h", "59.999999999s", "87600h0m0.000000001s"),
		"state-max-bytes":                  integer("1048576", "1099511627776", "1099511627777"),
		"removal-brake": {
			taken: []string{"1", "1000000", "1%", "99%"}, refused: append([]string{"0", "-1", "1000001", "0%", "100%", "-1%", "50.5%", "%"}, beyond...),
			help: "1 to 1000000, or 1% to 99%",
		},
		"socket-mode": {taken: []string{"0", "0777"}, refused: append(beyond, "-1", "01000"), help: "0 to 0777"},
		"metrics-bind-address": {
			taken: []string{":0", ":65535"}, refused: []string{":-1", ":65536", ":9223372036854775807", ":9223372036854775808", ":1e308"},
			help: "0 to 65535",
		},
		"listen": {
			taken:   []string{"http://127.0.0.1:0", "http://127.0.0.1:65535"},
			refused: []string{"http://127.0.0.1:-1", "http://127.0.0.1:65536", "http://127.0.0.1:9223372036854775808", "http://127.0.0.1:1e308"},
			help:    "0 to 65535",
		},
		"authentication-token-webhook-cache-ttl":       ttl,
		"authorization-webhook-cache-authorized-ttl":   ttl,
		"authorization-webhook-cache-unauthorized-ttl": ttl,
		"event-qps": events, "event-burst": events,
		"v": {taken: []string{"0", "2147483647"}, refused: append(beyond, "-1", "2147483648"), help: "0 to 2147483647"},
	},
	"podconfigd history": {
		"last": {taken: []string{"0", "1", "2147483647"}, refused: append([]string{"-1", "2147483648"}, beyond...), help: "0 to 2147483647"},
	},
	"podconfigd lookup": {
		"wait": {
			taken: []string{"0", "0s", "1ns", "1m"}, refused: []string{"-1ns", "-1m", "1m0.000000001s", "2562047h", "2562048h", "1e308", "1"},
			help: "0s to 1m", with: "1",
		},
	},
	"podconfigd proxy": {
		"port": {taken: []string{"0", "1", "65535"}, refused: append([]string{"-1", "65536"}, beyond...), help: "0 to 65535"},
	},
	"podconfigd release": {
		"removes": {
			taken: []string{"0", "1", "2147483647"}, refused: append([]string{"-1", "2147483648"}, beyond...),
			help: "0 to 2147483647", with: "file",
		},
	},
	"podconfigd watch": {
		"since": {
			taken: []string{"0", "1", "9223372036854775807"}, refused: []string{"-1", "9223372036854775808", "1e308"},
			help: "0 to 9223372036854775807",
		},
	},
}

var ttl = number{
	taken: []string{"0s", "24h"}, refused: []string{"-1ns", "-24h", "24h0m0.000000001s", "2562047h", "2562048h", "1e308", "1"},
	help: "0s to 24h",
}

var events = number{
	taken: []string{"0", "1", "1000000"}, refused: append([]string{"-1", "1000001"}, beyond...),
	help: "0 to 1000000",
}

func integer(least, most, more string) number {
	return number{
		taken: []string{least, most}, refused: append([]string{"0", "-1", more}, beyond...),
		help: least + " to " + most,
	}
}

func period(least, most, less, more string) number {
	return number{
		taken: []string{least, most}, refused: append([]string{less, more}, beyondDuration...),
		help: least + " to " + most,
	}
}

func (n number) and(with string) number { n.with = with; return n }

// Each number has a range, which the help contains. Outside of it, the error names the
// flag.
func TestNumbersOfFlags(t *testing.T) {
	for command, flags := range numbers {
		for name, number := range flags {
			t.Run(command+"/"+name, func(t *testing.T) {
				flag := find(t, command).Flags().Lookup(name)
				if flag == nil || !strings.Contains(flag.Usage, number.help) {
					t.Errorf("the help does not say %q: %+v", number.help, flag)
				}
				for _, value := range number.taken {
					if err := give(t, command, name, value, number.with); err != nil {
						t.Errorf("%s is refused: %v", value, err)
					}
				}
				for _, value := range number.refused {
					err := give(t, command, name, value, number.with)
					if err == nil || !strings.Contains(err.Error(), "--"+name) {
						t.Errorf("%s: %v, want an error that names the flag", value, err)
					}
				}
			})
		}
	}
}

// numbers lists every flag that takes a number.
func TestAllNumbersOfFlagsAreTried(t *testing.T) {
	types := []string{"bool", "string", "stringSlice", "stringArray", "colonSeparatedMultimapStringString", "name:value", "[NAME=]PATH", "[NAME=]URL"}
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			path := cmd.CommandPath()
			if strings.HasPrefix(path, "podconfigd config ") { // these have the flags of the daemon
				path = "podconfigd"
			}
			_, tried := numbers[path][flag.Name]
			if !tried && !flag.Hidden && !slices.Contains(types, flag.Value.Type()) {
				t.Errorf("%s --%s is of type %s, and not tried", cmd.CommandPath(), flag.Name, flag.Value.Type())
			}
		})
		for _, below := range cmd.Commands() {
			look(below)
		}
	}
	look(newRootCommand())
}

func find(t *testing.T, path string) *cobra.Command {
	t.Helper()
	cmd, _, err := newRootCommand().Find(strings.Fields(path)[1:])
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// give returns the error of the command for a flag.
func give(t *testing.T, command, name, value, with string) error {
	t.Helper()
	args := append([]string{fmt.Sprintf("--%s=%s", name, value)}, strings.Fields(with)...)
	if command != "podconfigd" {
		root := newRootCommand()
		root.SetOut(io.Discard)
		root.SetArgs(append(append(strings.Fields(command)[1:], args...), "--socket="))
		if err := root.Execute(); !strings.Contains(err.Error(), "no address of podconfigd") {
			return err
		}
		return nil
	}
	if err := newRootCommand().ParseFlags(args); err != nil {
		return err
	}
	opts, flags := newDaemonOptions(), pflag.NewFlagSet(command, pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true // the flags of logging
	opts.addFlags(flags)
	opts.StaticPodPath = "manifests"
	parseErr := flags.Parse(args)
	_, err := opts.check(flags)
	return errors.Join(parseErr, err)
}
