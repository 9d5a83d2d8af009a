package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Config is the configuration of a daemon. It has the fields of the configuration file, and fields that only a program
// can set. Set at least one source. Fields that are left out have their defaults, which are in v1alpha1.Options.
type Config struct {
	v1alpha1.PodConfigdConfiguration

	// InCluster uses the apiserver and the service account of the pod that the process runs
	// in, if Kubeconfig is empty. The command sets it if it runs in such a pod.
	InCluster bool
	// NotifyServiceManager reports the state of the daemon to the service manager that started
	// the process, if the environment has NOTIFY_SOCKET: READY=1 when the sockets are served,
	// STATUS=, STOPPING=1, and WATCHDOG=1 while the sync loop works. The command sets it.
	NotifyServiceManager bool
	// SocketActivation serves the listening sockets that the service manager passed to the
	// process (LISTEN_FDS), instead of opening sockets with the same addresses. The configuration must have the
	// address of each of them. Run takes them out of the environment. The command sets it.
	SocketActivation bool
	// Collectors are further metrics of the program. /metrics serves them too.
	Collectors []prometheus.Collector

	// waiting says what a daemon waits for that reads no source; empty for all others: AwaitName.
	waiting string
}

// setDefaults sets the fields that are left out.
func (c *Config) setDefaults() {
	v1alpha1.SetDefaults_PodConfigdConfiguration(&c.PodConfigdConfiguration)
}

// apiserver reports whether the apiserver is a source.
func (c *Config) apiserver() bool { return c.Kubeconfig != "" || c.InCluster }

// toHeader returns headers with canonical names. Without headers, it returns nil, so that nil and an empty map compare
// as equal. If names differ only in case, their values are in the order of the names: the same file always gives
// the same headers.
func toHeader(in map[string][]string) http.Header {
	if len(in) == 0 {
		return nil
	}
	out := make(http.Header, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		for _, value := range in[name] {
			out.Add(name, value)
		}
	}
	return out
}

// rules returns the access rules, which are valid.
func (c *Config) rules() []access.Rule {
	rules := make([]access.Rule, len(c.Access))
	for i := range c.Access {
		rules[i] = toRule(&c.Access[i], new(faults), "")
	}
	return rules
}

// toRule returns a rule. It leaves out the faulty parts, and adds their faults.
func toRule(in *v1alpha1.AccessRule, found *faults, path FieldName) access.Rule {
	view, err := access.ParseLevel(in.View)
	if err != nil {
		found.addFault(path+".view", "%w", err)
	}
	rule := access.Rule{
		Users: in.Users, Groups: in.Groups, UIDs: in.UIDs, GIDs: in.GIDs,
		AuthenticatedUsers: in.AuthenticatedUsers, AuthenticatedGroups: in.AuthenticatedGroups,
		Sources: in.Sources, Namespaces: in.Namespaces, View: view, Annotations: in.Annotations,
	}
	if in.LabelSelector != "" {
		if rule.LabelSelector, err = labels.Parse(in.LabelSelector); err != nil {
			found.addFault(path+".labelSelector", "%w", err)
		}
	}
	return rule
}

// validateAccess checks Access.
func (c *Config) validateAccess(found *faults) {
	if n := len(c.Access); n > access.MaxRules {
		found.addFault("access", "%d rules are too many: expected at most %d", n, access.MaxRules)
	}
	rules := make([]access.Rule, len(c.Access))
	for i := range c.Access {
		rules[i] = toRule(&c.Access[i], found, indexed("access", i))
	}
	for _, f := range access.Validate(rules, checkSource) {
		found.addFault(indexed("access", f.Rule)+FieldName("."+f.Field), "%w", f.Err)
	}
}

// indexed returns the name of an item of a list.
func indexed(list string, i int) FieldName { return FieldName(fmt.Sprintf("%s[%d]", list, i)) }

// checkSource returns an error if no source can have the name.
func checkSource(name string) error {
	if name == config.AllSource {
		return errors.New("leave sources out to select all")
	}
	_, err := config.ParseSource(name)
	return err
}

// servedRules is a file in the state directory. It has a fingerprint of the access rules in effect, and the last
// revision that clients may have got under other rules. After a restart, no stream resumes from that revision or an
// earlier one: its client may hold pods that the rules hide now. If there never were rules, there is no file. Without
// a state directory, the path is empty.
type servedRules struct{ path string }

// accessRulesName is the name of the file.
const accessRulesName = "access-rules"

func (s *state) servedRules() servedRules {
	if s.log == nil {
		return servedRules{}
	}
	return servedRules{filepath.Join(s.dir, accessRulesName)}
}

// others returns the last revision that clients may have got under other rules than these; 0 for none. head is the
// last revision of all.
func (f servedRules) others(p *access.Policy, head int64) int64 {
	if f.path == "" {
		return 0 // there is nothing to resume
	}
	data, err := smallfile.Read(f.path)
	if errors.Is(err, fs.ErrNotExist) && p == nil {
		return 0
	}
	fingerprint, revision, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	until, invalid := strconv.ParseInt(revision, 10, 64)
	if err != nil || invalid != nil || fingerprint != fingerprintOf(p) {
		return head
	}
	return until
}

// fingerprintOf returns a word that identifies the rules.
func fingerprintOf(p *access.Policy) string { return cmp.Or(p.Fingerprint(), "none") }

// set writes the file. After the revision others, clients get what these rules show.
func (f servedRules) set(p *access.Policy, others int64) error {
	if p == nil && others == 0 {
		return f.write("")
	}
	return f.write(fmt.Sprintf("%s %d\n", fingerprintOf(p), others))
}

// replacing writes the file while the rules are replaced.
func (f servedRules) replacing() error { return f.write("unknown\n") }

// write replaces the file; it removes it if there is nothing to write.
func (f servedRules) write(text string) error {
	if f.path == "" {
		return nil
	}
	if text == "" {
		if err := os.Remove(f.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := smallfile.Replace(f.path, text); err != nil {
		return fmt.Errorf("writing the fingerprint of the access rules: %w", err)
	}
	return nil
}

// warnOfNames logs that rules with names hide pods from clients over TCP with these names.
func (c *Config) warnOfNames(logger klog.Logger, policy *access.Policy) {
	if c.listensOn("https") && !policy.NamesAuthenticated() {
		logger.Info("The users and groups of the access rules are those of this machine; from a client over TCP with such a name, a rule hides its pods. For clients over TCP, use authenticatedUsers and authenticatedGroups")
	}
}

// applyAccess replaces the access rules while the daemon runs, if they differ.
func (d *Daemon) applyAccess(logger klog.Logger, c *Config) {
	policy := access.NewPolicy(c.rules())
	if policy.Fingerprint() == access.NewPolicy(d.current.rules()).Fingerprint() {
		return
	}
	d.config.warnOfNames(logger, policy)
	file := d.state.servedRules()
	report := func(err error) {
		if err != nil {
			logger.Error(err, "After a restart, streams may resume with pods that the access rules hide now")
		}
	}
	report(file.replacing())
	report(file.set(policy, d.server.SetPolicy(policy)))
}
