package configfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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

// numbers are all flags that take a number.
var numbers = map[string]number{
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
	"ended-pods-retention":             period("1s", "168h", "999.999999ms", "168h0m0.000000001s"),
	"ended-pods-max":                   integer("1", "1048576", "1048577"),
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

// flagSet returns options and their flags.
func flagSet() (*Options, *pflag.FlagSet) {
	opts, flags := NewOptions(), pflag.NewFlagSet("podconfigd", pflag.ContinueOnError)
	opts.AddTo(flags)
	return opts, flags
}

// Each number has a range, which the help contains. Outside of it, the error names the
// flag.
func TestNumbersOfFlags(t *testing.T) {
	for name, number := range numbers {
		t.Run(name, func(t *testing.T) {
			_, flags := flagSet()
			flag := flags.Lookup(name)
			if flag == nil || !strings.Contains(flag.Usage, number.help) {
				t.Errorf("the help does not say %q: %+v", number.help, flag)
			}
			for _, value := range number.taken {
				if err := give(name, value, number.with); err != nil {
					t.Errorf("%s is refused: %v", value, err)
				}
			}
			for _, value := range number.refused {
				err := give(name, value, number.with)
				if err == nil || !strings.Contains(err.Error(), "--"+name) {
					t.Errorf("%s: %v, want an error that names the flag", value, err)
				}
			}
		})
	}
}

// numbers lists every flag that takes a number.
func TestAllNumbersOfFlagsAreTried(t *testing.T) {
	types := []string{"bool", "string", "stringArray", "colonSeparatedMultimapStringString", "[NAME=]PATH", "[NAME=]URL"}
	_, flags := flagSet()
	flags.VisitAll(func(flag *pflag.Flag) {
		if _, tried := numbers[flag.Name]; !tried && !flag.Hidden && !slices.Contains(types, flag.Value.Type()) {
			t.Errorf("--%s is of type %s, and not tried", flag.Name, flag.Value.Type())
		}
	})
}

// give returns the error of the configuration for a flag.
func give(name, value, with string) error {
	opts, flags := flagSet()
	opts.StaticPodPath = "manifests"
	parseErr := flags.Parse(append([]string{fmt.Sprintf("--%s=%s", name, value)}, strings.Fields(with)...))
	_, err := opts.Check(flags)
	return errors.Join(parseErr, err)
}
