package params

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/pkg/containers"
)

// Containers is a request for /v1alpha1/containers.
type Containers struct {
	containers.WatchOptions

	// Watch requests the stream.
	Watch bool
}

// ParseContainers parses the query of /v1alpha1/containers.
func ParseContainers(raw string) (*Containers, error) {
	q, err := parseQuery(raw, "watch", "instance", "since", "source", "namespace", "labelSelector", "fieldSelector", "owner", "labels", "owners")
	if err != nil {
		return nil, err
	}
	c := &Containers{Watch: q.bool("watch", false)}
	c.Labels, c.Owners, c.Instance = q.bool("labels", false), q.bool("owners", false), q.values["instance"]
	if s := q.values["since"]; s != "" {
		since, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			q.Add("since", notRevision(strconv.Quote(s)))
		}
		c.Since = new(int64(since))
	}
	c.Selector = q.selector(q.values["source"], q.values["labelSelector"], q.values["fieldSelector"], q.values["owner"])
	c.Selector.Namespace = q.values["namespace"]
	if c.Since != nil && !c.Watch {
		q.Add("since", errors.New("requires watch=true"))
	}
	q.checkContainers(&c.WatchOptions)
	return c, q.Err()
}

// checkContainers checks what depends on several parameters, and the fields of the selector.
func (f *Faults) checkContainers(opts *containers.WatchOptions) {
	if opts.Since == nil && opts.Instance != "" {
		f.Add("instance", errors.New("requires since"))
	}
	if opts.Selector.Fields == nil {
		return
	}
	for _, r := range opts.Selector.Fields.Requirements() {
		if !slices.Contains(containerFields, r.Field) {
			f.Add("fieldSelector", fmt.Errorf("field label not supported: %s; supported are %s", r.Field, strings.Join(containerFields, ", ")))
		}
	}
}

// containerFields are the fields by which containers are selected. A container does not follow other fields of its pod.
var containerFields = []string{"metadata.name", "metadata.namespace", "metadata.uid"}
