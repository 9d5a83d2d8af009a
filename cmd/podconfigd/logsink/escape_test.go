package logsink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/grpc/grpclog"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"
)

const forged = "/a\nI1123 FAKE \x1b[31m\u009b\u202e\u200b\x7f\u2028\U000e0001\x9b\r\n\t >\n >\n{\"msg\":\"FAKE\"}\n"

type shown string

func (s shown) String() string { return string(s) }

// Whatever others chose, and wherever it is in a record, each record is one printable line.
func TestNoLineIsForged(t *testing.T) {
	gates := featuregate.NewFeatureGate()
	if err := logsapi.AddFeatureGates(gates); err != nil {
		t.Fatal(err)
	}
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	header := regexp.MustCompile(`^[IE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ escape_test\.go:\d+\] `)
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			if err := logsapi.ResetForTest(gates); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = logsapi.ResetForTest(gates) // it was applied once
				klog.StopFlushDaemon()
			}()
			var out bytes.Buffer
			sink := New(&out, DefaultSize)
			config := logsapi.NewLoggingConfiguration()
			config.Format = format
			config.FlushFrequency.Duration.Duration = time.Hour
			if err := logsapi.ValidateAndApplyWithOptions(config, &logsapi.LoggingOptions{ErrorStream: sink, InfoStream: sink}, gates); err != nil {
				t.Fatal(err)
			}
			logger, records := klog.Background(), 0
			for _, value := range []any{
				forged, errors.New(forged), shown(forged), []string{forged}, map[string]string{forged: forged}, struct{ A any }{forged},
				[]byte(forged), klog.KRef(forged, forged), fmt.Errorf("a: %w", errors.New(forged)), &forgedText{forged},
			} {
				logger.Info("a message", "key", value)
				logger.Error(errors.New(forged), forged, forged, value)        //nolint:loggercheck // the key is the test
				logger.WithName(forged).WithValues(forged, value).Info(forged) //nolint:loggercheck // the key is the test
				records += 3
			}
			klog.InfoS(forged, "key", forged) //nolint:forbidigo // the libraries do
			klog.Errorf("%s", forged)         //nolint:forbidigo // the libraries do
			records += 2
			sink.Close(time.Minute)
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(lines) != records {
				t.Errorf("%d lines for %d records", len(lines), records)
			}
			for _, line := range lines {
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("not printable: %q", line)
				}
				if format == "json" && !json.Valid([]byte(line)) || format == "text" && !header.MatchString(line) {
					t.Errorf("no record: %s", line)
				}
			}
		})
	}
}

type forgedText struct{ Text string }

// Records of libraries that do not use the logger are lines of their own too.
func TestRecordsOfLibraries(t *testing.T) {
	var out bytes.Buffer
	sink := New(&out, DefaultSize)
	grpclog.NewLoggerV2(io.Discard, sink, io.Discard).Warning(forged)
	sink.Close(time.Minute)
	if got := out.String(); strings.Count(got, "\n") != 1 || strings.ContainsFunc(strings.TrimSuffix(got, "\n"), unicode.IsControl) {
		t.Errorf("got %q", got)
	}
}

func TestOneLine(t *testing.T) {
	for name, test := range map[string]struct{ record, want string }{
		"one line":                  {"I1 \"a\" k=\"\\x1b\"\n", "I1 \"a\" k=\"\\x1b\"\n"},
		"lines of values":           {"I1 \"a\" err=<\n\tfirst \"x\"\n\t\tsecond\x1b\n > k=<\n\t\n\t >\n >\n", `I1 "a" err="first \"x\"\n\tsecond\x1b" k="\n >"` + "\n"},
		"a line that is not klog's": {"no end\nof line", `no end\nof line`},
		"JSON":                      {"{\"a\":\"\u009b\U000e0001\x7f\"}\n", `{"a":"\u009b\udb40\udc01\u007f"}` + "\n"},
		"empty":                     {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(oneLine([]byte(test.record))); got != test.want {
				t.Errorf("%q: got %q, want %q", test.record, got, test.want)
			}
		})
	}
}
