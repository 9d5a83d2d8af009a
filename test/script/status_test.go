package script

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// cmdStatus waits for the expected verdict on a manifest.
func (sc *scenario) cmdStatus(in *invocation) error {
	if in.neg || len(in.args) < 2 || len(in.args) > 3 {
		return errUsage
	}
	state, file := v1alpha1.ManifestState(in.args[0]), in.args[1]
	why, err := regexp.Compile(strings.Join(in.args[2:], ""))
	if err != nil {
		return err
	}
	return poll(func() error {
		_, source, err := sc.source()
		if err != nil {
			return err
		}
		verdict := verdictOn(source, file)
		if verdict == nil {
			if state != "absent" {
				return fmt.Errorf("there is no verdict on %s", file)
			}
			return nil
		}
		said := strings.Join(append([]string{verdict.Reason + ": " + verdict.Message}, verdict.Warnings...), "; ")
		if verdict.State != state || !why.MatchString(said) {
			return fmt.Errorf("%s is %s, %s", file, verdict.State, said)
		}
		return nil
	})
}

// verdictOn returns the verdict on the manifest with the name, or nil.
func verdictOn(source *v1alpha1.SourceStatus, file string) *v1alpha1.Manifest {
	for i := range source.File.Manifests {
		if m := &source.File.Manifests[i]; filepath.Base(m.Path) == file {
			return m
		}
	}
	return nil
}

// cmdSource waits for the expected status of the file source.
func (sc *scenario) cmdSource(in *invocation) error {
	if in.neg || len(in.args) == 0 {
		return errUsage
	}
	want := make(map[string]*regexp.Regexp)
	for _, arg := range in.args {
		name, value, found := strings.Cut(arg, "=")
		if !found {
			return errUsage
		}
		var err error
		if want[name], err = regexp.Compile("^(?:" + value + ")$"); err != nil {
			return err
		}
	}
	return poll(func() error {
		_, source, err := sc.source()
		if err != nil {
			return err
		}
		have := map[string]string{
			"absent":     strconv.FormatBool(source.File.Absent),
			"degraded":   strconv.FormatBool(source.Degraded),
			"lastError":  source.LastError,
			"manifests":  strconv.Itoa(len(source.File.Manifests)),
			"pods":       strconv.Itoa(source.Pods),
			"seen":       strconv.FormatBool(source.Seen),
			"watch":      source.File.Watch,
			"watchError": source.File.WatchError,
		}
		for name, value := range want {
			is, known := have[name]
			if !known {
				return fmt.Errorf("%q: %w: %w", name, errUsage, errFinal)
			}
			if !value.MatchString(is) {
				return fmt.Errorf("%s is %q", name, is)
			}
		}
		return nil
	})
}

// cmdPods compares /pods with the expected names.
func (sc *scenario) cmdPods(in *invocation) error {
	if in.neg {
		return errUsage
	}
	list, err := sc.client.Pods(sc.tb.Context())
	if err != nil {
		return err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Namespace+"/"+list.Items[i].Name)
	}
	if !slices.Equal(in.args, names) {
		return fmt.Errorf("the script expects%s\n/pods has%s", indent(in.args), indent(names))
	}
	return nil
}

// cmdAwait waits until a file that another process writes matches.
func (sc *scenario) cmdAwait(in *invocation) error {
	if in.neg || len(in.args) != 2 {
		return errUsage
	}
	pattern, err := regexp.Compile("(?m)" + in.args[0])
	if err != nil {
		return err
	}
	file := in.ts.MkAbs(in.args[1])
	return poll(func() error {
		content, err := os.ReadFile(file)
		if err == nil && !pattern.Match(content) {
			err = fmt.Errorf("%s does not match:\n%s", in.args[1], content)
		}
		return err
	})
}
