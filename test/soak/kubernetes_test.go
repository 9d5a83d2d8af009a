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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/test/soak/history"
)

// kubernetes follows the Kubernetes API over plain HTTP. With watchList, a watch begins with
// the present pods; otherwise a list does.
type kubernetes struct {
	*subscriber

	watchList bool
}

// operations has the operations of the types of events.
var operations = map[string]string{
	"ADDED": history.Add, "MODIFIED": history.Update, "DELETED": history.Remove, "BOOKMARK": history.Bookmark,
}

func (s kubernetes) read(ctx context.Context) error {
	if s.since == 0 && !s.watchList {
		if done, err := s.list(ctx); !done {
			return err
		}
	}
	return s.watch(ctx)
}

// query returns the path and the parameters of requests.
func (s kubernetes) query() (string, url.Values) {
	query := url.Values{}
	if tier := s.history.Selection.Tier; tier != "" {
		query.Set("labelSelector", "tier="+tier)
	}
	if name := s.history.Selection.Name; name != "" {
		query.Set("fieldSelector", "metadata.name="+name)
	}
	if namespace := s.history.Selection.Namespace; namespace != "" {
		return "/api/v1/namespaces/" + namespace + "/pods?", query
	}
	return "/api/v1/pods?", query
}

// list takes a list, and says whether it came whole.
func (s kubernetes) list(ctx context.Context) (bool, error) {
	path, query := s.query()
	body, err := s.get(ctx, path+query.Encode())
	if body == nil {
		return false, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return false, nil // cut
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []object
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return false, fmt.Errorf("list %q: %w", data, err)
	}
	m := &history.Message{Op: history.List}
	if m.Revision, err = strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64); err != nil {
		return false, fmt.Errorf("list: %w", err)
	}
	for i := range list.Items {
		m.Pods = append(m.Pods, list.Items[i].pod())
	}
	s.connect()
	s.take(ctx, m)
	return true, nil
}

// watch takes events until the connection ends or the revision is gone.
func (s kubernetes) watch(ctx context.Context) error {
	path, query := s.query()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	if s.since != 0 {
		query.Set("resourceVersion", strconv.FormatInt(s.since, 10))
	} else {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	}
	body, err := s.get(ctx, path+query.Encode())
	if body == nil {
		return err
	}
	defer body.Close()
	s.connect()
	reader := bufio.NewReader(body)
	for {
		text, err := reader.ReadBytes('\n')
		if err != nil {
			return nil // cut, or killed
		}
		m, err := eventOf(text)
		if err != nil {
			return fmt.Errorf("event %q: %w", text, err)
		}
		if s.take(ctx, m); m.Reset {
			s.forget()
			return nil
		}
	}
}

func eventOf(text []byte) (*history.Message, error) {
	var event struct {
		Type   string
		Object json.RawMessage
	}
	if err := json.Unmarshal(text, &event); err != nil {
		return nil, err
	}
	if event.Type == "ERROR" {
		var status metav1.Status
		if err := json.Unmarshal(event.Object, &status); err != nil || status.Code != http.StatusGone {
			return nil, fmt.Errorf("an error, but not 410: %w", err)
		}
		return &history.Message{Reset: true, Op: history.Bookmark}, nil
	}
	var o object
	if err := json.Unmarshal(event.Object, &o); err != nil {
		return nil, err
	}
	m := &history.Message{Op: operations[event.Type]}
	if m.Op == history.Bookmark {
		m.Synced = o.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true"
	} else {
		m.Pods = []history.Pod{o.pod()}
	}
	var err error
	m.Revision, err = strconv.ParseInt(o.Metadata.ResourceVersion, 10, 64)
	return m, err
}
