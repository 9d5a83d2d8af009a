package v1alpha1

import "time"

// MirrorStatus is the state of the mirror pods that the daemon keeps in the apiserver.
type MirrorStatus struct {
	// StaticPods is the number of static pods, and Pods the number of those that have their
	// mirror pod.
	StaticPods int `json:"staticPods"`
	Pods       int `json:"pods"`
	// Waiting is why no mirror pods are created yet, for example because the apiserver does not
	// have the node; empty if they are.
	Waiting string `json:"waiting,omitempty"`
	// Stopped is set while no mirror pods are created, because another client manages those of
	// the node.
	Stopped *MirrorStop `json:"stopped,omitempty"`
	// Problems are the pods whose last request failed, by namespace and name.
	Problems []MirrorProblem `json:"problems,omitempty"`
	// ProblemsOmitted is the number of further problems.
	ProblemsOmitted int `json:"problemsOmitted,omitempty"`
}

// MirrorStop is why no mirror pods are created.
type MirrorStop struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	// Until is when the daemon tries again; nil if that depends on the other client.
	Until *time.Time `json:"until,omitempty"`
}

// MirrorProblem is a mirror pod whose last request failed.
type MirrorProblem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Message   string `json:"message,omitempty"`
	// Since is when the request first failed in this way.
	Since time.Time `json:"since"`
}
