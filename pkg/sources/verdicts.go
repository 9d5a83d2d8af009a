package sources

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// The verdicts in the status and the log are limited. The authors of manifests may write
// very many manifests, with other names each time.
const (
	// maxAccepted and maxOthers are the maximum number of manifests of each state in the
	// status.
	maxAccepted = 1000
	maxOthers   = 200
	// maxText is the maximum length in bytes of a text in the status and in the log.
	// maxWarnings is the maximum number of warnings on a manifest.
	maxText     = 2048
	maxWarnings = 20
	// logBurst is the number of verdicts that are logged at once. After that, one verdict is logged each logEvery.
	// The others are counted in a line of their own, at most once each countEvery.
	logBurst   = 200
	logEvery   = 10 * time.Second
	countEvery = time.Minute
)

// Verdicts are the verdicts on the manifests of a source: the verdicts that are shown, and the
// number of the others. The zero value has none.
type Verdicts struct {
	shown  []v1alpha1.Manifest
	counts map[v1alpha1.ManifestState]int
}

// Add adds the verdict on one more manifest.
func (v *Verdicts) Add(m v1alpha1.Manifest) {
	if v.counts == nil {
		v.counts = make(map[v1alpha1.ManifestState]int)
	}
	v.counts[m.State]++
	if v.counts[m.State] <= shownOf(m.State) {
		v.shown = append(v.shown, shorten(m))
	}
}

// Merge adds the verdicts of another.
func (v *Verdicts) Merge(other *Verdicts) {
	for _, m := range other.shown {
		v.Add(m)
	}
	for state, n := range other.Omitted() {
		v.counts[state] += n
	}
}

func shownOf(state v1alpha1.ManifestState) int {
	if state == v1alpha1.ManifestAccepted {
		return maxAccepted
	}
	return maxOthers
}

// Shown returns the manifests to show, in the order in which they were added.
func (v *Verdicts) Shown() []v1alpha1.Manifest {
	if v.shown == nil {
		return []v1alpha1.Manifest{}
	}
	return v.shown
}

// Count returns the number of manifests in the state.
func (v *Verdicts) Count(state v1alpha1.ManifestState) int { return v.counts[state] }

// Omitted counts the manifests that are not shown, by state.
func (v *Verdicts) Omitted() map[v1alpha1.ManifestState]int {
	var omitted map[v1alpha1.ManifestState]int
	for state, n := range v.counts {
		if more := n - shownOf(state); more > 0 {
			if omitted == nil {
				omitted = make(map[v1alpha1.ManifestState]int)
			}
			omitted[state] = more
		}
	}
	return omitted
}

// shorten shortens the texts of a verdict.
func shorten(m v1alpha1.Manifest) v1alpha1.Manifest {
	for _, text := range []*string{&m.Path, &m.Namespace, &m.Name, &m.UID, &m.Reason, &m.Message} {
		*text = ShortText(*text)
	}
	warnings := m.Warnings
	m.Warnings = nil
	for i, warning := range warnings {
		if i == maxWarnings {
			m.Warnings = append(m.Warnings, fmt.Sprintf("and %d more", len(warnings)-i))
			break
		}
		m.Warnings = append(m.Warnings, ShortText(warning))
	}
	return m
}

// ShortText returns the text. If it is too long, it returns its beginning and its length.
func ShortText(text string) string {
	if len(text) <= maxText {
		return text
	}
	return fmt.Sprintf("%s (%d bytes)", printable.Cut(text, maxText), len(text))
}

// Reporter logs verdicts. It belongs to one goroutine.
type Reporter struct {
	lines, counts *rate.Limiter
	unlogged      int
}

// NewReporter returns a Reporter.
func NewReporter() *Reporter {
	return &Reporter{
		lines:  rate.NewLimiter(rate.Every(logEvery), logBurst),
		counts: rate.NewLimiter(rate.Every(countEvery), 1),
	}
}

// Report logs a new verdict: at level 2 if the manifest is accepted without a warning, and had no fault and no warning before.
// was is the verdict before; nil if there was none.
func (r *Reporter) Report(ctx context.Context, m v1alpha1.Manifest, was *v1alpha1.Manifest) {
	logger := klog.FromContext(ctx)
	again := was != nil && !quiet(was)
	if quiet(&m) && !again {
		logger = logger.V(2)
	}
	switch {
	case !logger.Enabled():
		return
	case !r.lines.Allow():
		r.unlogged++
		return
	}
	m = shorten(m)
	logger = logger.WithValues("state", m.State)
	if m.Path != "" {
		logger = logger.WithValues("manifest", m.Path)
	}
	if m.Name != "" {
		logger = logger.WithValues("pod", klog.KRef(m.Namespace, m.Name))
	}
	if len(m.Warnings) > 0 {
		logger = logger.WithValues("warnings", m.Warnings)
	}
	switch {
	case m.State == v1alpha1.ManifestIgnored:
		logger.Info("File ignored, it is not meant as a pod", "reason", m.Reason, "message", m.Message)
	case m.State != v1alpha1.ManifestAccepted:
		logger.Info("Manifest not usable", "reason", m.Reason, "message", m.Message)
	case len(m.Warnings) > 0:
		logger.Info("Manifest accepted with warnings", "podUID", m.UID)
	case again:
		logger.Info("Manifest accepted again", "podUID", m.UID)
	default:
		logger.Info("Manifest accepted", "podUID", m.UID)
	}
}

// quiet reports whether the manifest has neither a fault nor a warning.
func quiet(m *v1alpha1.Manifest) bool {
	return m.State == "" || m.State == v1alpha1.ManifestAccepted && len(m.Warnings) == 0
}

// Gone logs that a manifest whose last verdict was a fault is gone.
func (r *Reporter) Gone(ctx context.Context, was *v1alpha1.Manifest) {
	switch {
	case was.State == "", was.State == v1alpha1.ManifestAccepted:
	case !r.lines.Allow():
		r.unlogged++
	default:
		klog.FromContext(ctx).Info("Manifest is gone", "was", was.State, "manifest", ShortText(was.Path))
	}
}

// TakeOver logs that another manifest gives the pod of a name from now on.
func (r *Reporter) TakeOver(ctx context.Context, namespace, name, from, to string) {
	if !r.lines.Allow() {
		r.unlogged++
		return
	}
	klog.FromContext(ctx).Info("Manifest took over the pod's name", "pod", klog.KRef(namespace, ShortText(name)), "from", ShortText(from), "manifest", ShortText(to))
}

// Skip counts verdicts that are not reported.
func (r *Reporter) Skip(n int) { r.unlogged += n }

// Flush logs the number of verdicts that were not logged. Call it after each look at the
// manifests.
func (r *Reporter) Flush(ctx context.Context) {
	if r.unlogged == 0 || !r.counts.Allow() {
		return
	}
	klog.FromContext(ctx).Info("Further verdicts on manifests are not logged", "count", r.unlogged)
	r.unlogged = 0
}
