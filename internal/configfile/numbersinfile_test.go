package configfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

// inFile returns the path of the flag's field in the file, and the text of a file that gives
// it a value.
func inFile(t *testing.T, flag, value string) (path, text string) {
	t.Helper()
	for _, o := range v1alpha1.Options {
		if o.Flag == flag && path == "" {
			path = o.Path
		}
	}
	if path == "" {
		t.Fatalf("--%s has no field", flag)
	}
	switch flag {
	case "socket-mode", "metrics-bind-address", "removal-brake":
		value = strconv.Quote(value)
	case "listen":
		value = "[" + strconv.Quote(value) + "]"
	}
	text = "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\nstaticPodPath: m\n"
	indent := ""
	for name := range strings.SplitSeq(path, ".") {
		text += "\n" + indent + name + ":"
		indent += "  "
	}
	return path, strings.TrimPrefix(text, "\n") + " " + value + "\n"
}

// loadFile returns the error of the daemon for the file and flags.
func loadFile(t *testing.T, text string, args ...string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, flags := flagSet()
	if err := flags.Parse(append(args, "--socket=s", "--config="+file)); err != nil {
		return err
	}
	_, err := opts.Check(flags)
	return err
}

// A number in the file has the range of the flag. Outside of it, the error names the line and
// the field.
func TestNumbersOfTheFile(t *testing.T) {
	for name, number := range numbers {
		t.Run(name, func(t *testing.T) {
			for _, value := range number.taken {
				if _, text := inFile(t, name, value); loadFile(t, text, strings.Fields(number.with)...) != nil {
					t.Errorf("%s is refused: %v", value, loadFile(t, text, strings.Fields(number.with)...))
				}
			}
			for _, value := range number.refused {
				path, text := inFile(t, name, value)
				place := fmt.Sprintf("config.yaml:%d: %s", strings.Count(text, "\n"), path)
				if err := loadFile(t, text, strings.Fields(number.with)...); err == nil || !strings.Contains(err.Error(), place) {
					t.Errorf("%s: %v, want an error with %q", value, err, place)
				}
			}
		})
	}
}
