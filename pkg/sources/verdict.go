package sources

// State says what became of a manifest.
type State string

// The states of a manifest.
const (
	// Accepted: its pod is in the set.
	Accepted State = "Accepted"
	// Rejected: it can't be used and never gave a pod.
	Rejected State = "Rejected"
	// Held: it can't be used now; the pod that it gave before is in the set.
	Held State = "Held"
	// Shadowed: it is good, but its pod's name or UID belongs to another file.
	Shadowed State = "Shadowed"
)

// ReasonDuplicate is the reason of what is Shadowed. The other reasons are those of
// package manifest and of the source.
const ReasonDuplicate = "Duplicate"

// Verdict is what the source has to say of one manifest.
type Verdict struct {
	// Path is the manifest's file, as its pod's UID has it, or its place in a list.
	Path string `json:"path"`
	// State is what became of it.
	State State `json:"state"`
	// Namespace, Name and UID are those of the pod that it gives or gave last.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Reason is one word and Message a sentence on why it was not accepted.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Warnings are what the kubelet would pass over in silence.
	Warnings []string `json:"warnings,omitempty"`
}
