package client

import (
	"context"
	"iter"
	"maps"
	"net/url"
	"strconv"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// HistoryOptions select changes. The zero value selects all.
type HistoryOptions struct {
	// Since is a period before now, as in 10m, or a time in the format of RFC 3339.
	Since string
	// Until is the end, in the same form. Newest requests the newest change first.
	Until  string
	Newest bool
	// Source is the name of a source.
	Source string
	// Pod is the name of a pod, as in kube-system/etcd-node1.
	Pod string
	// Pods requests the previous and the new version of the pod.
	Pods bool
}

// History returns the changes that the daemon has on disk, oldest first if opts does not say otherwise. It requests one
// page after the other. An error ends the sequence. It is a [RefusedError] with code 404 if the daemon has no state
// directory, and with code 410 if the daemon deleted changes after the last page.
func (c *Client) History(ctx context.Context, opts HistoryOptions) iter.Seq2[*v1alpha1.HistoryRecord, error] {
	first := make(url.Values)
	for name, value := range map[string]string{"since": opts.Since, "until": opts.Until, "source": opts.Source, "pod": opts.Pod} {
		if value != "" {
			first.Set(name, value)
		}
	}
	if opts.Newest {
		first.Set("newest", strconv.FormatBool(true))
		first.Set("limit", "10000") // the maximum: the daemon reads the whole history for each page
	}
	if opts.Pods {
		first.Set("pods", strconv.FormatBool(true))
	}
	return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
		query := maps.Clone(first)
		for {
			var page v1alpha1.History
			if err := c.getJSON(ctx, "/v1alpha1/history", query, &page); err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Records {
				if !yield(&page.Records[i], nil) {
					return
				}
			}
			if page.Continue == "" {
				return
			}
			query.Set("continue", page.Continue)
		}
	}
}
