package sources

import (
	"context"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Source reads the pods of one place. Its constructor only allocates, and Run is called
// once at most.
//
//   - Run sends the full set of pods on sets: first as soon as the set is known, even
//     if it is empty, then each time it changes. The source is not ready until then,
//     and neither is the node.
//   - Unavailable is not empty. A source that can't read sends nothing, keeps what it
//     sent last, and reports why and since when in its status.
//   - Every send selects on the context too. Run returns the context's cause within a
//     second of the context's end. By then every goroutine that it started has ended.
//   - Run never closes sets.
//   - A pod that was sent is shared and is never written to again. A pod that did not
//     change is sent as the same pointer, so the cost of a set follows what changed.
//   - A set names its origin, which has no secrets in it.
//   - Names and UIDs of the pods in a set are distinct. Of two pods that clash, the
//     source keeps one by a rule of its own and reports the other.
type Source interface {
	Run(ctx context.Context, sets chan<- config.SourceSet) error
	// Status returns what the source knows of itself. It can be called at any time, by
	// any goroutine. Seen and Pods are zero: whoever merges the sets knows them.
	Status() v1alpha1.SourceStatus
}

// ReasonDuplicate is the reason of a manifest that is shadowed. Package manifest and
// each source have further reasons.
const ReasonDuplicate = "Duplicate"
