package kubelet

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

const (
	// AskTimeout is the longest time that the first sets wait for the runtime.
	AskTimeout = time.Second
	// lookPeriod is the interval at which the sandboxes are looked at without a notice of a change.
	lookPeriod = 10 * time.Second
	// reportDelay is the time after which it is reported that nothing was found.
	reportDelay = 2 * AskTimeout
	// oddAfter is how long a kubelet runs static pods under UIDs that no rules give, and none under one that is
	// known, until they are adopted. In between, the other manifests are read.
	oddAfter = 2 * time.Second
	// maxNames limits the number of names of static pods that are remembered.
	maxNames = 1 << 16
)

// Auto is the version of a configuration that leaves it to the Finder.
const Auto = "auto"

// CheckVersion returns an error for what is neither a version nor Auto.
func CheckVersion(value string) error {
	if value == "" || value == Auto {
		return nil
	}
	_, err := manifest.ParseMinor(value)
	return err
}

// Options configure a Finder.
type Options struct {
	// Decoder is told which rules to use. It compares the pods that it decodes with what the Finder
	// expects.
	Decoder *manifest.Decoder
	// Version is the version that the configuration sets, or Auto.
	Version string
	// List lists the pods of the runtime, and Pods returns those that were last recorded. nil without a
	// runtime.
	List func(context.Context) ([]*pleg.Pod, error)
	Pods func() ([]*pleg.Pod, bool)
	// Statics returns the UIDs of the static pods in the kubelet's Pods API; nil while it does not answer. The function is
	// nil without it.
	Statics func() map[types.NamespacedName]types.UID
	// Node means that an apiserver has the Node: SetNode is called.
	Node bool
	// Remembered is what was remembered at the last run; nil for nothing. Remember stores it; nil
	// without a state directory.
	Remembered *Memory
	Remember   func(Memory) error
	// Restored has the UIDs of the pods of the last run.
	Restored map[types.UID]bool
	// Presence says whether a kubelet runs on the node: PresenceAuto to find out. HealthzURL is the
	// health check of a kubelet; empty for none.
	Presence   Presence
	HealthzURL string
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Finder finds the version of the kubelet. It is safe for concurrent use.
type Finder struct {
	opts    Options
	notices chan struct{}
	// nodeAsked is closed when the apiserver has said which Node it has.
	nodeAsked chan struct{}
	nodeOnce  sync.Once

	mu    sync.Mutex
	found found
	// memory is what was stored last.
	memory Memory
	// node is the version in the Node; empty if it is not known. nodeAt is when it changed; zero if it has not.
	node   string
	nodeAt moment
	// lost means that the Node says that its kubelet no longer answers. heartbeat is when its kubelet last wrote
	// the Ready condition; zero if the Node does not say that it answers.
	lost      bool
	heartbeat time.Time
	// seq counts the looks at the sandboxes.
	seq int
	// sandboxes has when each sandbox of a static pod was first seen, by ID.
	sandboxes map[string]moment
	// running has the newest ready sandbox of each name of a static pod; nil before the first look.
	running map[types.NamespacedName]*sighting
	// mirrors has the mirror pod of each, if a kubelet created it.
	mirrors map[types.NamespacedName]*sighting
	// odd means that the kubelet gives static pods UIDs that no rules give: they are adopted. oddSince is when it
	// began to look so; zero if it does not.
	odd      bool
	oddSince time.Time
	// decoded has the UID of each static pod that was decoded, by the rules.
	decoded map[types.NamespacedName]types.UID
	logged  string
	// probed means that the health check was asked, and answered is when it last answered.
	probed   bool
	answered time.Time
}

// New returns a Finder. The decoder uses the version that is known so far. The version of the options is
// valid.
func New(opts Options) *Finder {
	f := &Finder{
		opts: opts, notices: make(chan struct{}, 1), nodeAsked: make(chan struct{}), sandboxes: make(map[string]moment),
		mirrors: make(map[types.NamespacedName]*sighting), decoded: make(map[types.NamespacedName]types.UID),
	}
	f.found = found{version: manifest.Base.String(), minor: manifest.Base, source: SourceBase}
	if m := opts.Remembered; m != nil {
		if minor, err := manifest.ParseMinor(m.Version); err == nil {
			f.memory, f.odd = *m, m.Odd
			for _, id := range m.Sandboxes {
				f.seq++
				f.sandboxes[id] = moment{seq: f.seq}
			}
			f.seq++
			f.found = found{version: m.Version, minor: minor, source: SourceState, at: moment{seq: f.seq}}
		}
	}
	if minor, err := manifest.ParseMinor(opts.Version); err == nil {
		f.found = found{version: opts.Version, minor: minor, source: SourceFlag}
	}
	opts.Decoder.Use(f.found.minor)
	opts.Decoder.Compare(f)
	if opts.Registerer != nil {
		opts.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "podconfigd_static_pods_under_another_uid",
			Help: "Number of static pods that run under a UID that no rules of a kubelet give them.",
		}, func() float64 { return float64(len(f.Others())) }))
	}
	return f
}

// Ask asks the runtime for its sandboxes, and if it runs no static pods, waits for the Node, for at most
// AskTimeout. The first sets wait for it.
func (f *Finder) Ask(ctx context.Context) {
	defer f.remember(ctx)
	if f.fixed() {
		return
	}
	asking, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	var pods []*pleg.Pod
	var err error
	if f.opts.List != nil {
		pods, err = f.opts.List(asking) // the PLEG reports a runtime that does not answer
	}
	if err == nil && (f.opts.List != nil || f.opts.Statics != nil) {
		f.look(pods)
	}
	if !f.opts.Node || f.runs() {
		return
	}
	select {
	case <-f.nodeAsked:
	case <-asking.Done():
	}
}

// runs reports whether a static pod runs.
func (f *Finder) runs() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.running) > 0
}

func (f *Finder) fixed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found.source == SourceFlag
}

// Notice makes Run look at the sandboxes. It does not wait.
func (f *Finder) Notice() {
	select {
	case f.notices <- struct{}{}:
	default:
	}
}

// Run looks at the sandboxes when they change, until the context is done.
func (f *Finder) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	first := time.NewTimer(reportDelay)
	defer first.Stop()
	f.probe(ctx)
	patient := true
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-first.C:
			patient = false
		case <-f.notices:
		case <-ticker.C:
			f.probe(ctx)
		}
		again := f.lookAgain()
		again = f.decide() || again
		f.report(ctx, patient)
		f.remember(ctx)
		if again {
			f.opts.Decoder.Again()
		}
	}
}
