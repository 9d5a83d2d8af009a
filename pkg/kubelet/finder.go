// Package kubelet finds out which version of the kubelet runs on the node, and whether one runs there at all:
//
//	f := kubelet.New(kubelet.Options{Decoder: decoder, List: runtime.Pods, Presence: kubelet.PresenceAuto})
//	f.Ask(ctx)
//	go f.Run(ctx)
//	status := f.Status()
//
// The UID of a static pod depends on the minor version of the kubelet, and names the pod in the sandboxes of the runtime, in
// their cgroups and in the mirror pod. So the UIDs show the version: it is the one whose rules give the UID of the newest
// sandbox of a static pod. Package manifest reports each pod that it decodes to a [Finder]. The Finder makes it use the rules
// of the version that fits.
package kubelet

import (
	"context"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

const (
	// AskTimeout is the longest time that Ask takes. The first sets of the sources wait for it.
	AskTimeout = time.Second
	// lookPeriod is the interval between looks at the sandboxes if there is no notice of a change.
	lookPeriod = 10 * time.Second
	// reportDelay is how long after the start of Run it is logged that nothing was found.
	reportDelay = 2 * AskTimeout
	// maxNames limits the number of static pods in Finder.decoded.
	maxNames = 1 << 16
)

// Auto is the configured version if the Finder is to find it.
const Auto = "auto"

// CheckVersion returns an error if the value is neither a version nor Auto.
func CheckVersion(value string) error {
	if value == "" || value == Auto {
		return nil
	}
	_, err := manifest.ParseMinor(value)
	return err
}

// Options configure a Finder.
type Options struct {
	// Decoder reports the pods that it decodes to the Finder, which sets its rules.
	Decoder *manifest.Decoder
	// Version is the configured version, or Auto.
	Version string
	// List lists the pods of the runtime, Pods returns the recorded ones. Both are nil without a runtime.
	List func(context.Context) ([]*pleg.Pod, error)
	Pods func() ([]*pleg.Pod, bool)
	// Statics returns the UIDs of the static pods in the kubelet's Pods API; nil while the API does not answer. The
	// function is nil without a Pods API.
	Statics func() map[types.NamespacedName]types.UID
	// Node means that there is an apiserver: SetNode will be called.
	Node bool
	// Remembered is the Memory of the last run; nil for none. Remember stores one; nil without a state directory.
	Remembered *Memory
	Remember   func(*Memory)
	// Restored has the static pods of the last run. Without Remembered, their UIDs show the version.
	Restored map[types.UID]types.NamespacedName
	// Presence says whether a kubelet runs on the node. With PresenceAuto, the Finder finds out. HealthzURL is the health
	// check of the kubelet; empty for none.
	Presence   Presence
	HealthzURL string
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer

	// stat is os.Lstat, except in tests.
	stat func(string) (fs.FileInfo, error)
}

// Finder finds the version of the kubelet. It is safe for concurrent use.
type Finder struct {
	opts    Options
	notices chan struct{}
	// nodeAsked is closed by the first SetNode.
	nodeAsked chan struct{}
	nodeOnce  sync.Once

	mu    sync.Mutex
	found found
	// memory was stored last.
	memory Memory
	// node is the version in the Node; empty if it is not known. nodeAt is when it last changed; zero for never.
	node   string
	nodeAt moment
	// lost means that the Node's Ready condition is Unknown: its kubelet no longer answers. Otherwise, heartbeat is when
	// the kubelet last wrote that condition; zero without the condition.
	lost      bool
	heartbeat time.Time
	// seq counts the looks at the sandboxes.
	seq int
	// sandboxes has when each sandbox of a static pod was first seen, by ID.
	sandboxes map[string]moment
	// running has the newest ready sandbox of each name of a static pod; nil before the first look.
	running map[types.NamespacedName]*sighting
	// mirrors has the mirror pods that a kubelet created.
	mirrors map[types.NamespacedName]*sighting
	// restored has the static pods of the last run if nothing else is remembered of it.
	restored map[types.NamespacedName]*sighting
	// adopting means that the UIDs of the kubelet are adopted, because no rules give them.
	adopting bool
	// decoded has the UID that the present rules give each static pod.
	decoded map[types.NamespacedName]types.UID
	// files has the UID that the present rules give the pod of that name in each file. A kubelet runs the pod of the last file,
	// and podconfigd may serve that of another one.
	files map[types.NamespacedName]map[string]types.UID
	// ignoring means that there may be files that the kubelet reads and podconfigd does not.
	ignoring bool
	logged   string
	// probed means that the health check was requested. answered is when it last answered.
	probed   bool
	answered time.Time
}

// New returns a Finder, and makes the decoder use the version that is known so far. The version in the options must be
// valid.
func New(opts Options) *Finder {
	if opts.stat == nil {
		opts.stat = os.Lstat
	}
	f := &Finder{
		opts: opts, notices: make(chan struct{}, 1), nodeAsked: make(chan struct{}), sandboxes: make(map[string]moment),
		mirrors: make(map[types.NamespacedName]*sighting), decoded: make(map[types.NamespacedName]types.UID),
		files: make(map[types.NamespacedName]map[string]types.UID),
	}
	f.found = found{version: manifest.Base.String(), minor: manifest.Base, source: SourceBase}
	if m := opts.Remembered; m == nil {
		f.restored = make(map[types.NamespacedName]*sighting)
		for uid, name := range opts.Restored {
			f.restored[name] = &sighting{source: SourceState, id: string(uid), uid: uid}
		}
	} else {
		if minor, err := manifest.ParseMinor(m.Version); err == nil {
			f.memory, f.adopting = *m, m.Adopting
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
	metric.In(opts.Registerer, "").GaugeFunc("static_pods_under_another_uid", "Number of static pods that run under a UID that no rules of a kubelet give them.",
		func() float64 { return float64(len(f.Others())) })
	return f
}

// Ask lists the sandboxes of the runtime. If it runs no static pods, Ask waits for the Node. It takes AskTimeout at most.
func (f *Finder) Ask(ctx context.Context) {
	defer f.remember()
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
	await.Signal(f.notices)
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
		f.remember()
		if again {
			f.opts.Decoder.Redecode()
		}
	}
}
