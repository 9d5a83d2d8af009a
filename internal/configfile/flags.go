package configfile

import (
	"reflect"
	"strings"

	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// logField is a field of the configuration of the log that has a flag.
type logField struct {
	path, flag string
	copy       func(to, from *logsapi.LoggingConfiguration)
}

var logFields = []logField{
	{"logging.format", "logging-format", func(to, from *logsapi.LoggingConfiguration) { to.Format = from.Format }},
	{"logging.flushFrequency", "log-flush-frequency", func(to, from *logsapi.LoggingConfiguration) { to.FlushFrequency = from.FlushFrequency }},
	{"logging.verbosity", "v", func(to, from *logsapi.LoggingConfiguration) { to.Verbosity = from.Verbosity }},
	{"logging.vmodule", "vmodule", func(to, from *logsapi.LoggingConfiguration) { to.VModule = from.VModule }},
	{"logging.options.text.splitStream", "log-text-split-stream", func(to, from *logsapi.LoggingConfiguration) {
		to.Options.Text.SplitStream = from.Options.Text.SplitStream
	}},
	{"logging.options.text.infoBufferSize", "log-text-info-buffer-size", func(to, from *logsapi.LoggingConfiguration) {
		to.Options.Text.InfoBufferSize = from.Options.Text.InfoBufferSize
	}},
	{"logging.options.json.splitStream", "log-json-split-stream", func(to, from *logsapi.LoggingConfiguration) {
		to.Options.JSON.SplitStream = from.Options.JSON.SplitStream
	}},
	{"logging.options.json.infoBufferSize", "log-json-info-buffer-size", func(to, from *logsapi.LoggingConfiguration) {
		to.Options.JSON.InfoBufferSize = from.Options.JSON.InfoBufferSize
	}},
}

// applyFlags replaces the values whose flag is on the command line. A flag of a list replaces
// the list.
func (c *Configuration) applyFlags() {
	to, from := reflect.ValueOf(&c.Daemon).Elem(), reflect.ValueOf(&c.flags.Daemon).Elem()
	for _, field := range daemon.Fields() {
		if c.changed(field.Flag) {
			at(to, field.Name).Set(at(from, field.Name))
		}
	}
	for _, field := range logFields {
		if c.changed(field.flag) {
			field.copy(&c.Logging, &c.flags.Logging)
		}
	}
}

func (c *Configuration) changed(flag string) bool { return flag != "" && c.flags.Changed(flag) }

// at returns the field of a configuration.
func at(config reflect.Value, name daemon.FieldName) reflect.Value {
	for part := range strings.SplitSeq(string(name), ".") {
		config = config.FieldByName(part)
	}
	return config
}

// FlagOf returns the flag of a field of the file, without dashes; empty if there is none.
func FlagOf(path string) string {
	for _, field := range daemon.Fields() {
		if _, ok := cutName(path, field.Path); ok {
			return field.Flag
		}
	}
	for _, field := range logFields {
		if _, ok := cutName(path, field.path); ok {
			return field.flag
		}
	}
	return ""
}
