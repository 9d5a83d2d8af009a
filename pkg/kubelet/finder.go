package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
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

// sighting is the newest ready sandbox of a static pod, or its mirror pod.
type sighting struct {
	source Source
	id     string
	uid    types.UID
	at     moment
	// known means that the pod was decoded with this UID, that the rules of another minor give it, or that it is
	// that of a pod of the last run. unknown means that no rules give it.
	known, unknown bool
	// of is the UID by the rules of the version of the manifest that it runs; empty if it was not decoded.
	of types.UID
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

// lookAgain looks at what is recorded by now, as look.
func (f *Finder) lookAgain() (unknown bool) {
	var pods []*pleg.Pod
	listed := f.opts.Pods == nil && f.opts.Statics != nil
	if f.opts.Pods != nil {
		pods, listed = f.opts.Pods()
	}
	return listed && f.look(pods)
}

// look takes the newest ready sandbox of each static pod, and what the kubelet itself says about it. It reports whether one of them has to be
// identified: the kubelet runs a pod under another UID than the one that was decoded.
func (f *Finder) look(pods []*pleg.Pod) (unknown bool) {
	var statics map[types.NamespacedName]types.UID
	if f.opts.Statics != nil {
		statics = f.opts.Statics()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	seen := make(map[string]moment)
	newest := make(map[types.NamespacedName]*sighting)
	for _, pod := range pods {
		if pod.Source != config.FileSource && pod.Source != config.HTTPSource {
			continue
		}
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		for i := range pod.Containers {
			c := &pod.Containers[i]
			if !c.Sandbox {
				continue
			}
			at, known := f.sandboxes[c.ID]
			if !known {
				at = moment{seq: f.seq, created: c.CreatedAt}
			}
			seen[c.ID] = at
			if n := newest[name]; c.State == pleg.StateRunning && (n == nil || at.after(n.at)) {
				newest[name] = &sighting{source: SourceSandboxes, id: c.ID, uid: pod.UID, at: at, of: f.memory.Adopted[c.ID]}
			}
		}
	}
	f.sandboxes = seen
	for name, uid := range statics {
		newest[name] = &sighting{source: SourcePodsAPI, id: string(uid), uid: uid, at: moment{seq: f.seq, created: time.Now()}}
	}
	for name, now := range newest {
		if before := f.running[name]; before != nil && before.id == now.id {
			newest[name] = before
			continue
		}
		unknown = unknown || f.differs(name, now.uid)
	}
	f.running = newest
	return unknown && f.found.source != SourceFlag
}

// differs reports whether the static pod of that name was decoded with another UID.
func (f *Finder) differs(name types.NamespacedName, uid types.UID) bool {
	decoded, known := f.decoded[name]
	return known && decoded != uid
}

// MirrorPod takes a mirror pod of the apiserver that is there, or that was removed.
func (f *Finder) MirrorPod(pod *v1.Pod, removed bool) {
	if config.IsOwnMirrorPod(pod) {
		return
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	uid := types.UID(pod.Annotations[v1.MirrorPodAnnotationKey])
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.mirrors[name]
	switch {
	case removed:
		if before != nil && before.id == string(pod.UID) {
			delete(f.mirrors, name)
		}
	case before == nil || before.id != string(pod.UID):
		f.mirrors[name] = &sighting{source: SourceMirrorPods, id: string(pod.UID), uid: uid, at: moment{created: pod.CreationTimestamp.Time}}
		if f.running[name] == nil && f.differs(name, uid) && f.found.source != SourceFlag {
			f.opts.Decoder.Again()
		}
	}
}

// Decoded takes the UID of a pod that was decoded. It is a part of [manifest.Evidence].
func (f *Finder) Decoded(name types.NamespacedName, uid types.UID) (running types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.decoded) >= maxNames {
		clear(f.decoded)
	}
	f.decoded[name] = uid
	s := f.seen(name)
	if s == nil {
		return ""
	}
	s.known = s.known || s.uid == uid
	s.of = cmp.Or(s.of, uid)
	if f.found.source == SourceFlag || s.known && s.uid != uid {
		return "" // it has nothing more to say: the sandbox is that of another version of the manifest
	}
	return s.uid
}

// seen returns the sandbox of a static pod, otherwise its mirror pod, otherwise nil.
func (f *Finder) seen(name types.NamespacedName) *sighting {
	if s := f.running[name]; s != nil {
		return s
	}
	return f.mirrors[name]
}

// Identified takes the minor that gives a pod the UID under which the kubelet runs it. It is a part of
// [manifest.Evidence].
func (f *Finder) Identified(name types.NamespacedName, running types.UID, by manifest.Minor) (adopt bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.seen(name)
	if s == nil || s.uid != running {
		return false // another one is there by now
	}
	if by == 0 && f.opts.Restored[running] && !f.odd {
		s.known = true // of an earlier version of the manifest
		return false
	}
	if by == 0 {
		s.unknown = true
		f.Notice() // to decide
		return f.odd && s.source != SourceMirrorPods && s.of == f.decoded[name]
	}
	s.known = true
	f.offer(found{version: by.String(), minor: by, source: s.source, at: s.at})
	return false
}

// decide decides for the node whether the UIDs of its kubelet are adopted: for a while, it runs static pods
// under UIDs that no rules give, and none under one that is known. It reports whether that has changed. If
// some are known, the others are those of earlier versions of the manifests.
func (f *Finder) decide() (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, unknown := false, false
	for _, s := range f.running {
		known, unknown = known || s.known, unknown || s.unknown && !s.known
	}
	switch {
	case known || !unknown:
		f.oddSince = time.Time{}
	case f.oddSince.IsZero():
		f.oddSince = time.Now()
		time.AfterFunc(oddAfter, f.Notice)
	}
	odd := !known && (f.odd || !f.oddSince.IsZero() && time.Since(f.oddSince) >= oddAfter)
	changed = odd != f.odd
	f.odd = odd
	if f.nodeAt.after(f.found.at) {
		f.followNode() // it may have waited for the end of the sandboxes
	}
	return changed
}

// offer takes a version if it is better or newer evidence than the present one.
func (f *Finder) offer(next found) {
	now := &f.found
	switch by := next.source.rank() - now.source.rank(); {
	case now.source == SourceFlag, by < 0:
		return
	case now.source == SourceState && next.source.rank() == SourceSandboxes.rank() && next.minor != now.minor && !next.at.after(now.at):
		return // an old sandbox that is still there
	case by == 0 && !next.at.after(now.at):
		return
	}
	if next.minor == now.minor && len(now.version) > len(next.version) {
		next.version = now.version // such as v1.34.4, for 1.34
	}
	changed := next.minor != now.minor
	if !changed && now.at.after(next.at) {
		next.at = now.at // remembered
	}
	f.found = next
	if changed {
		for _, s := range f.running {
			s.of = "" // it is by other rules
		}
		f.memory.Adopted = nil
		f.opts.Decoder.Use(next.minor)
	}
	f.Notice()
}

// report logs what was found, once. If it is patient, it waits for something better than the base.
func (f *Finder) report(ctx context.Context, patient bool) {
	f.mu.Lock()
	now := f.found
	line := fmt.Sprintf("%v %v", now.minor, now.source)
	known := line == f.logged || patient && now.source == SourceBase
	if !known {
		f.logged = line
	}
	f.mu.Unlock()
	if !known {
		klog.FromContext(ctx).Info("Following the rules of a kubelet", "version", now.version, "rules", now.minor.Nearest(), "source", now.source)
	}
}
