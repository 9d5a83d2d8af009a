// Package manifest makes a pod of the bytes of a manifest, as the kubelet does: it
// decodes the manifest, applies defaults, adds the node name to the pod's name, sets the
// UID and validates the pod.
//
// # Why it depends on k8s.io/kubernetes
//
// The UID of a static pod is a hash of the decoded internal pod with its defaults. The
// validation of the internal types decides whether a pod is accepted. Both change with
// each minor version of Kubernetes, and no staging repository publishes them. A
// reimplementation would be wrong for some manifest of some version. A pod with another
// UID than the kubelet's is another pod to every program that compares the two. So this
// package calls the kubelet's own code: legacyscheme, apis/core and its v1 defaults and
// conversion, apis/core/validation, api/pod and util/hash. It is the only package of this
// module that imports k8s.io/kubernetes. A test checks this.
//
// # Differences from the kubelet
//
// The verdict and the pod are the kubelet's for the same node name and the same path or
// URL. The spelling of the path matters, because it is part of the UID.
//
// The errors are different: each [Fault] has the field and the line. An error never
// contains the manifest itself, or the value of an environment variable.
//
// Faults that the kubelet ignores are warnings: fields that Kubernetes does not know,
// duplicate keys, further YAML documents.
//
// # How lines are found
//
// The kubelet converts YAML to JSON and decodes the JSON, which has no lines. So if there
// is a fault or a warning, this package parses the manifest again, into a tree of nodes,
// and follows the path of the field in the tree. A good manifest has no additional cost:
// strict decoding, which finds the warnings, takes as long as decoding.
package manifest

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/podconfigd/podconfigd/internal/printable"
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

// NodeName returns the name of the node, with the rules of the kubelet: the override, or
// the hostname if the override is empty, in lower case.
//
// kubelet: k8s.io/component-helpers/node/util GetHostname.
func NodeName(override string) (types.NodeName, error) {
	name, hint := override, ""
	if name == "" {
		hint = "; set another with --hostname-override"
		hostname, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("reading the hostname: %w; set the node name with --hostname-override", err)
		}
		name = hostname
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" {
		return "", errors.New("the node name is empty" + hint)
	}
	// The name of every static pod ends in it, and the apiserver accepts only such node names.
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("invalid node name %q: %s%s", name, printable.Rule(problems[0]), hint)
	}
	return types.NodeName(name), nil
}
