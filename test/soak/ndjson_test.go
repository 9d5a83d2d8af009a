package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/soak/history"
)

// object is what is recorded of a pod in JSON.
type object struct {
	Metadata struct {
		Namespace, Name, UID, ResourceVersion string
		DeletionGracePeriodSeconds            *int64
		Labels, Annotations                   map[string]string
	}
	Status struct{ Message string }
}

func (o *object) pod() history.Pod {
	m := &o.Metadata
	return history.Pod{
		Source: m.Annotations["kubernetes.io/config.source"], Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		Version: m.Labels["version"], Tier: m.Labels["tier"], Status: o.Status.Message, Grace: grace(m.DeletionGracePeriodSeconds),
		Mirror: m.Annotations[v1.MirrorPodAnnotationKey] != "",
	}
}

func grace(seconds *int64) string {
	if seconds == nil {
		return ""
	}
	return strconv.FormatInt(*seconds, 10)
}

// line is a line of the stream.
type line struct {
	Instance, Op, Source       string
	Message                    string
	Revision                   int64
	Time                       time.Time
	InitialSyncComplete, Reset bool
	Continues                  bool
	Pods                       []object
}

func (l *line) message() *history.Message {
	m := &history.Message{
		Instance: l.Instance, Revision: l.Revision, Time: l.Time, Op: l.Op, Source: l.Source,
		Synced: l.InitialSyncComplete, Reset: l.Reset, Continues: l.Continues,
	}
	for i := range l.Pods {
		m.Pods = append(m.Pods, l.Pods[i].pod())
	}
	return m
}

// ndjson follows /v1alpha1/updates.
type ndjson struct{ *subscriber }

// read reads one connection until it ends. The end is no error.
func (s ndjson) read(ctx context.Context) error {
	query := url.Values{}
	for name, value := range map[string]string{
		"source": s.history.Selection.Source, "namespace": s.history.Selection.Namespace, "ops": strings.Join(s.history.Ops, ","),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if s.history.Selection.NoMirrors {
		query.Set("mirrorPods", "false")
	}
	if s.history.View == history.Snapshots {
		query.Set("mode", "snapshot")
	}
	if tier := s.history.Selection.Tier; tier != "" {
		query.Set("labelSelector", "tier="+tier)
	}
	if name := s.history.Selection.Name; name != "" {
		query.Set("fieldSelector", "metadata.name="+name)
	}
	if s.since != 0 {
		query.Set("instance", s.instance)
		query.Set("since", strconv.FormatInt(s.since, 10))
	}
	body, err := s.get(ctx, "/v1alpha1/updates?"+query.Encode())
	if body == nil {
		return err
	}
	defer body.Close()
	s.connect()
	reader := bufio.NewReader(body)
	for {
		text, err := reader.ReadBytes('\n')
		if err != nil {
			return nil // the connection was cut, or the daemon killed
		}
		l := new(line)
		if err := json.Unmarshal(text, l); err != nil {
			return fmt.Errorf("line %q: %w", text, err)
		}
		s.take(ctx, l.message())
	}
}

// get returns the body of an answer. It is nil if there is none, because the connection was
// cut, or the daemon is not there.
func (s *subscriber) get(ctx context.Context, path string) (io.ReadCloser, error) {
	transport := &http.Transport{DialContext: s.cutter.dial, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, nil // no answer is no error
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusServiceUnavailable {
		return nil, nil // not yet
	}
	return nil, fmt.Errorf("%s: %s %s", path, response.Status, text)
}
