package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/pkg/access"
)

// servedRules is a file in the state directory with a fingerprint of the access rules by which
// clients were served. After a restart with other rules, no stream resumes: what its client has
// is by the rules before. Without rules, there is no file. The path is empty without a state
// directory.
type servedRules struct{ path string }

func (s *state) servedRules() servedRules {
	if s.log == nil {
		return servedRules{}
	}
	return servedRules{filepath.Join(s.dir, "access-rules")}
}

// are reports whether clients were served by these rules. They were not if that is not known.
func (f servedRules) are(p *access.Policy) bool {
	if f.path == "" {
		return true // there is nothing to resume
	}
	data, err := smallfile.Read(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return p == nil
	}
	return err == nil && p != nil && string(data) == p.Fingerprint()+"\n"
}

// unknown is the content of the file while the rules are replaced.
const unknown = "unknown"

// set writes the file. It removes it without a fingerprint.
func (f servedRules) set(fingerprint string) error {
	if f.path == "" {
		return nil
	}
	if fingerprint == "" {
		if err := os.Remove(f.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	temp := f.path + ".new"
	err := os.WriteFile(temp, []byte(fingerprint+"\n"), 0o600)
	if err == nil {
		err = os.Rename(temp, f.path)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one to report
		return fmt.Errorf("writing the fingerprint of the access rules: %w", err)
	}
	return nil
}

// setAccess replaces the access rules while the daemon runs. The rules are valid.
func (d *Daemon) setAccess(logger klog.Logger, rules []access.Rule) {
	policy := access.NewPolicy(rules)
	file := d.state.servedRules()
	report := func(err error) {
		if err != nil {
			logger.Error(err, "After a restart, streams may resume with pods that the access rules hide now")
		}
	}
	report(file.set(unknown))
	d.server.SetPolicy(policy)
	report(file.set(policy.Fingerprint()))
}
