package server

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// A change of the access rules has the stream of containers start again.
func TestContainersAfterAChangeOfTheRules(t *testing.T) {
	d, _ := serveCanaries(t, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1alpha1/containers?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	until := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("no line with %s: %v", text, lines.Err())
	}
	until(`"initialSyncComplete":true`)
	d.server.SetPolicy(access.NewPolicy([]access.Rule{{View: access.Metadata}}))
	until(`"reset":true,"message":"the access rules changed"`)
	until(`"initialSyncComplete":true`)
}

func TestParametersOfContainers(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{}, func(o *Options) {
		o.Lookup = lookup.New(lookup.Options{Journal: o.Journal})
		streamContainers(t, o)
	})
	for query, want := range map[string]string{
		"watch=maybe":                     `parameter \"watch\": `,
		"labels=2":                        `parameter \"labels\": `,
		"watch=true&since=-1":             `parameter \"since\": \"-1\" is not a revision`,
		"since=1":                         `parameter \"since\": requires watch=true`,
		"watch=true&instance=a":           `parameter \"instance\": requires since`,
		"source=none":                     `parameter \"source\": `,
		"labelSelector=a+b":               `parameter \"labelSelector\": `,
		"fieldSelector=a%3Db":             `parameter \"fieldSelector\": field label not supported: a; supported are metadata.name, metadata.namespace, metadata.uid`,
		"fieldSelector=spec.nodeName%3Da": `parameter \"fieldSelector\": field label not supported: spec.nodeName; supported are metadata.name, metadata.namespace, metadata.uid`,
		"owner=a":                         `parameter \"owner\": `,
		"pod=a":                           `parameter \"pod\": `,
	} {
		if code, body := d.get(t, "/v1alpha1/containers?"+query); code != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}
