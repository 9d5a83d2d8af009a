package manifest

import (
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

// Decoder decodes the manifests of one node by the rules of one kubelet. It is safe for concurrent use.
type Decoder struct {
	nodeName types.NodeName
	evidence Evidence

	mu      sync.Mutex
	rules   Rules
	changed chan struct{}
}

// Evidence knows under which UIDs static pods run.
type Evidence interface {
	// Decoded is called with the UID and the grace period of each decoded pod that has no UID of its own in the manifest, and
	// with its file; empty for a manifest of a URL. It returns the UID under which the kubelet runs a pod of that name; empty if none is known.
	Decoded(name types.NamespacedName, file string, uid types.UID, grace time.Duration) (running types.UID)
	// Identified is called with the minor whose rules give the running UID; 0 if none of them does. It
	// returns true if the pod gets the running UID although no rules give it.
	Identified(name types.NamespacedName, running types.UID, by Minor) (adopt bool)
}

// NewDecoder returns a decoder for the node with the name, with the rules of the base.
func NewDecoder(nodeName types.NodeName) *Decoder {
	return &Decoder{nodeName: nodeName, rules: Rules{minor: Base}, changed: make(chan struct{})}
}

// For returns a decoder with the rules of the kubelet of a minor, or of the nearest known one. It has no
// evidence.
func (d *Decoder) For(m Minor) *Decoder {
	return &Decoder{nodeName: d.nodeName, rules: Rules{minor: m.Nearest()}, changed: make(chan struct{})}
}

// Compare compares the UIDs of decoded pods with the evidence. It must be called before the first pod
// is decoded.
func (d *Decoder) Compare(e Evidence) { d.evidence = e }

// Minor returns the minor whose rules are used.
func (d *Decoder) Minor() Minor {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rules.minor
}

// Rules are the rules by which a pod is decoded. A pod that was decoded by other rules must be decoded again.
type Rules struct {
	minor Minor
	// renewed counts the calls of Redecode.
	renewed int
}

// Rules returns the rules that are used.
func (d *Decoder) Rules() Rules {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rules
}

// Use makes the decoder use the rules of a minor, or of the nearest known one.
func (d *Decoder) Use(m Minor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m = m.Nearest(); m != d.rules.minor {
		d.rules.minor = m
		d.renew()
	}
}

// Redecode makes the sources decode their manifests again, because there is new evidence.
func (d *Decoder) Redecode() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules.renewed++
	d.renew()
}

func (d *Decoder) renew() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Changed returns a channel that is closed when pods that were decoded after the call must be decoded again.
func (d *Decoder) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// identify compares the UID of a pod with the evidence. If the kubelet runs the pod under another UID,
// it looks for the minor that gives it.
func (d *Decoder) identify(t *text, m Minor, pod *api.Pod, json []byte, from origin) {
	if d.evidence == nil {
		return
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	running := d.evidence.Decoded(name, from.file, pod.UID, gracePeriod(pod))
	switch running {
	case "":
	case pod.UID:
		d.evidence.Identified(name, running, m)
	default:
		if d.evidence.Identified(name, running, d.minorOf(t, running, m, json, from)) {
			pod.UID = running
			pod.Annotations[configHashAnnotationKey] = string(running)
		}
	}
}

// gracePeriod returns the time that the containers of a pod get to end.
func gracePeriod(pod *api.Pod) time.Duration {
	seconds := pod.Spec.TerminationGracePeriodSeconds
	if seconds == nil {
		return 0
	}
	return time.Duration(min(*seconds, math.MaxInt32)) * time.Second
}

// minorOf returns the minor whose rules give the pod the UID; 0 if no minor does. It skips tried, whose rules do not.
func (d *Decoder) minorOf(t *text, uid types.UID, tried Minor, json []byte, from origin) Minor {
	for m := Base; m >= Oldest; m-- {
		if m == tried {
			continue
		}
		pod, _, err := t.decodePod(json)
		if err == nil {
			err = m.prepare(t, pod, new(yamlfault.Findings))
		}
		if err == nil && d.uid(m, pod, from) == uid {
			return m
		}
	}
	return 0
}
