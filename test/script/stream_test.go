package script

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// update is one update of a stream, as in scripts.
type update struct {
	revision int64
	// size is the number of its pods, including those of barriers.
	size int
	// at is the time at which the daemon recorded it; zero in the first lines of a stream
	// and in bookmarks.
	at        time.Time
	op        v1alpha1.Op
	source    string
	pods      []string
	continues bool
}

// String returns the update as scripts write it.
func (u update) String() string {
	words := []string{string(u.op)}
	if u.source != "" {
		words = append(words, u.source)
	}
	return strings.Join(append(words, u.pods...), " ")
}

// follows reports whether no revision is missing between before and this update. An
// update has one revision for each of its pods. Its own is the last of them.
func (u update) follows(before int64) bool {
	return u.revision > before && u.revision <= before+int64(max(1, u.size))
}

// each returns an update for each of the update's pods.
func (u update) each() []update {
	if len(u.pods) < 2 {
		return []update{u}
	}
	all := make([]update, len(u.pods))
	for i, pod := range u.pods {
		all[i] = u
		all[i].pods = []string{pod}
	}
	return all
}

// stream reads one stream of the daemon and checks its guarantees: revisions increase, a
// stream of all pods leaves none out, a pod is added if it is not there and changed or
// removed if it is.
type stream struct {
	bookmarks bool
	gapless   bool
	additive  bool // held are the subscriber's pods
	// ended is closed when the stream ends, after the last update.
	ended chan struct{}

	// mu guards the fields below.
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each line
	instance string
	// newest is the revision of the last line with a revision, or the one from which the
	// stream resumed.
	newest int64
	// continues means that the last line was not the last of its update. pieces counts
	// the pods of this update so far.
	continues bool
	pieces    int
	synced    bool
	// updates are those that the script has not expected yet.
	updates []update
	held    map[types.UID]string
	// barrier is the image of the barrier's pod; empty if there is none. barrierOnly has
	// the revisions with nothing else.
	barrier     string
	barrierOnly map[int64]bool
	broken      error
}

// subscribeTo opens a stream, which ends with the context. With bookmarks, it also
// records those that end the first state.
func subscribeTo(ctx context.Context, c *http.Client, query url.Values, bookmarks bool) (*stream, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1alpha1/updates?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != v1alpha1.ContentType {
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body) // the body is only for the error
		return nil, fmt.Errorf("the daemon answers %s, %s: %s", resp.Status, resp.Header.Get("Content-Type"), body)
	}
	incremental := query.Get("mode") == "" && query.Get("ops") == ""
	selected := query.Has("source") || query.Has("namespace") || query.Has("labelSelector") || query.Has("fieldSelector")
	var newest int64
	if since := query.Get("since"); since != "" {
		if newest, err = strconv.ParseInt(since, 10, 64); err != nil {
			return nil, err
		}
	}
	s := &stream{
		bookmarks:   bookmarks,
		newest:      newest,
		gapless:     incremental && !selected,
		additive:    incremental && !query.Has("since"),
		ended:       make(chan struct{}),
		changed:     make(chan struct{}),
		held:        make(map[types.UID]string),
		barrierOnly: make(map[int64]bool),
	}
	go s.read(resp.Body)
	return s, nil
}

func (s *stream) read(body io.ReadCloser) {
	defer close(s.ended)
	defer body.Close()
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // other checks cover the end of the daemon
		}
		var u v1alpha1.Update
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&u); err != nil {
			s.locked(func() { s.fail(fmt.Errorf("%w in the line %q", err, line)) })
			return
		}
		s.locked(func() {
			s.take(&u)
			close(s.changed)
			s.changed = make(chan struct{})
		})
	}
}

func (s *stream) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// fail records the first broken guarantee.
func (s *stream) fail(err error) {
	if s.broken == nil {
		s.broken = err
	}
}

func (s *stream) take(u *v1alpha1.Update) {
	line := update{revision: u.Revision, size: s.pieces + len(u.Pods), op: u.Op, source: u.Source, continues: u.Continues}
	if u.Time != nil {
		line.at = *u.Time
	}
	if u.Revision != 0 {
		s.checkOrder(u, line)
		s.newest = u.Revision
	}
	s.checkInstance(u)
	s.continues, s.pieces = u.Continues, 0
	if u.Continues {
		s.pieces = line.size
	}
	if u.Op == v1alpha1.OpBookmark {
		s.takeBookmark(u, line)
		return
	}
	barrier := false
	for _, pod := range u.Pods {
		s.hold(u.Op, pod)
		if pod.Namespace == barrierNamespace {
			s.barrier, barrier = pod.Spec.Containers[0].Image, true
			if u.Op == v1alpha1.OpRemove {
				s.barrier = ""
			}
			continue
		}
		line.pods = append(line.pods, podText(pod))
	}
	if barrier && len(line.pods) == 0 && u.Op != v1alpha1.OpSet {
		s.barrierOnly[u.Revision] = true
		return
	}
	if n := len(s.updates) - 1; n >= 0 && s.updates[n].continues && s.updates[n].op == u.Op && s.updates[n].source == u.Source {
		s.updates[n].pods = append(s.updates[n].pods, line.pods...)
		s.updates[n].continues = u.Continues
		s.updates[n].revision, s.updates[n].size = line.revision, line.size
		return
	}
	s.updates = append(s.updates, line)
}

func (s *stream) takeBookmark(u *v1alpha1.Update, line update) {
	switch {
	case u.Reset:
		clear(s.held)
		s.newest = 0
		line.pods = []string{"reset"}
	case u.InitialSyncComplete:
		s.synced = true
		line.pods = []string{"initialSyncComplete"}
		if !s.bookmarks {
			return
		}
	default:
		return
	}
	s.updates = append(s.updates, line)
}

// checkInstance checks that all lines have the same instance.
func (s *stream) checkInstance(u *v1alpha1.Update) {
	if s.instance != "" && u.Instance != s.instance {
		s.fail(fmt.Errorf("a line is of instance %s, after one of %s", u.Instance, s.instance))
	}
	s.instance = u.Instance
}

// checkOrder checks the revision of a line.
func (s *stream) checkOrder(u *v1alpha1.Update, line update) {
	switch {
	case u.Revision < s.newest && !u.Reset:
		s.fail(fmt.Errorf("revision %d came after %d", u.Revision, s.newest))
	case u.Time != nil && u.Revision == s.newest && !s.continues:
		s.fail(fmt.Errorf("revision %d came twice", u.Revision))
	case s.gapless && u.Time != nil && s.newest != 0 && u.Revision > s.newest && !line.follows(s.newest):
		s.fail(fmt.Errorf("revision %d came after %d: some are missing", u.Revision, s.newest))
	}
}

// hold applies one pod of an update to the subscriber's pods.
func (s *stream) hold(op v1alpha1.Op, pod *v1.Pod) {
	if !s.additive {
		return
	}
	name := pod.Namespace + "/" + pod.Name
	_, present := s.held[pod.UID]
	if present == (op == v1alpha1.OpAdd) {
		s.fail(fmt.Errorf("%s of %s, UID %s: was it present? %t", op, name, pod.UID, present))
	}
	if op == v1alpha1.OpRemove {
		delete(s.held, pod.UID)
		return
	}
	s.held[pod.UID] = name
}

// podText returns a pod as in scripts.
func podText(pod *v1.Pod) string {
	images := make([]string, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		images[i] = pod.Spec.Containers[i].Image
	}
	return fmt.Sprintf("%s/%s [%s]", pod.Namespace, pod.Name, strings.Join(images, ","))
}

var errStreamEnded = errors.New("the stream ended")

// wait waits for the condition, which is called with the lock held.
func (s *stream) wait(condition func() bool) error {
	deadline := time.After(testutil.Patience)
	for {
		// In this order, no line is missed.
		ended := isClosed(s.ended)
		done, changed := s.look(condition)
		if err := s.check(); err != nil {
			return err
		}
		switch {
		case done:
			return nil
		case ended:
			return errStreamEnded
		}
		select {
		case <-changed:
		case <-s.ended:
		case <-deadline:
			return fmt.Errorf("it did not come within %v", testutil.Patience)
		}
	}
}

// look reports whether the condition holds. It returns a channel that is closed at the
// next line.
func (s *stream) look(condition func() bool) (done bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return condition(), s.changed
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// check returns the first broken guarantee.
func (s *stream) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

func (s *stream) revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// pending returns the updates that the script has not expected yet, without those of only
// a barrier.
func (s *stream) pending(barrierOnly map[int64]bool) []update {
	s.mu.Lock()
	defer s.mu.Unlock()
	return withoutBarriers(s.updates, barrierOnly)
}

// withoutBarriers removes the updates in which only a barrier's pod changed.
func withoutBarriers(updates []update, barrierOnly map[int64]bool) []update {
	return slices.DeleteFunc(slices.Clone(updates), func(u update) bool {
		return !u.at.IsZero() && barrierOnly[u.revision]
	})
}

// forget drops the updates, because the script has expected them.
func (s *stream) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = nil
}

// pods returns the names of the subscriber's pods.
func (s *stream) pods() map[types.UID]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.held)
}
