//go:build linux

package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// Each field of the configuration has its flag, and each flag has its field.
func TestFlagsAndFieldsOfTheConfiguration(t *testing.T) {
	flags := newDaemonCommand().Flags()
	withField := make(map[string]bool)
	for _, field := range daemon.Fields() {
		withField[field.Flag] = true
		if field.Flag != "" && flags.Lookup(field.Flag) == nil {
			t.Errorf("%s: there is no flag --%s", field.Path, field.Flag)
		}
	}
	for name, field := range map[string]string{
		"config": "", "config-dir": "", "kubelet-config": "", // these name the files
		"v": "logging.verbosity", "vmodule": "logging.vmodule", "logging-format": "logging.format", "log-flush-frequency": "logging.flushFrequency",
		"log-text-split-stream": "logging.options.text.splitStream", "log-text-info-buffer-size": "logging.options.text.infoBufferSize",
		"log-json-split-stream": "logging.options.json.splitStream", "log-json-info-buffer-size": "logging.options.json.infoBufferSize",
	} {
		withField[name] = true
		if got := configfile.FlagOf(field); field != "" && got != name {
			t.Errorf("%s has the flag %q, want %q", field, got, name)
		}
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if !withField[flag.Name] {
			t.Errorf("--%s has no field in the configuration file", flag.Name)
		}
	})
}
