package history

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// connection reads a connection from text, one message a line:
//
//	OP [REVISION] [tTIME] [instance] [synced|reset|continues] [SOURCE:NAME@VERSION[/TIER][/mirror]]...
//
// SOURCE: may be left out, and is file then. The UID is the name. The instance is i1 if none
// is named. The time is the revision if none is given.
func connection(t *testing.T, since int64, text string) *Connection {
	t.Helper()
	c := &Connection{Since: since}
	if since != 0 {
		c.Instance = "i1"
	}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		c.Messages = append(c.Messages, message(t, strings.Fields(line)))
	}
	return c
}

func message(t *testing.T, fields []string) *Message {
	t.Helper()
	m := &Message{Op: fields[0], Instance: "i1"}
	clock := int64(0)
	for _, field := range fields[1:] {
		switch number, err := strconv.ParseInt(strings.TrimPrefix(field, "t"), 10, 64); {
		case err == nil && strings.HasPrefix(field, "t"):
			clock = number
		case err == nil:
			m.Revision = number
		case field == "synced":
			m.Synced = true
		case field == "reset":
			m.Reset = true
		case field == "continues":
			m.Continues = true
		case strings.Contains(field, "@"):
			p := pod(field)
			m.Pods, m.Source = append(m.Pods, p), p.Source
		default:
			m.Instance = field
		}
	}
	if clock == 0 {
		clock = m.Revision
	}
	if clock != 0 && m.Op != Bookmark {
		m.Time = time.Unix(clock, 0)
	}
	return m
}

func pod(text string) Pod {
	p := Pod{Source: "file", Namespace: "default"}
	if source, rest, cut := strings.Cut(text, ":"); cut {
		p.Source, text = source, rest
	}
	text, p.Mirror = strings.CutSuffix(text, "/mirror")
	text, p.Tier, _ = strings.Cut(text, "/")
	text, p.Version, _ = strings.Cut(text, "@")
	p.Name, p.UID, _ = strings.Cut(text, "=")
	if p.UID == "" {
		p.UID = p.Name
	}
	return p
}

// refuses checks that the histories break the promise, and no other.
func refuses(t *testing.T, promise Promise, histories ...*History) {
	t.Helper()
	refusedFor(t, promise, Check(histories, Options{MaxUpdates: 100}))
}

func refusedFor(t *testing.T, promise Promise, r *Report) {
	t.Helper()
	if len(r.Violations) == 0 {
		t.Errorf("a history that is not %s is accepted", promise)
	}
	for _, v := range r.Violations {
		t.Log(v)
		if v.Promise != promise {
			t.Errorf("a history that is not %s is refused for another reason: %v", promise, v)
		}
	}
}

func accepts(t *testing.T, histories ...*History) *Report {
	t.Helper()
	r := Check(histories, Options{MaxUpdates: 100})
	for _, v := range r.Violations {
		t.Errorf("a right history is refused: %v", v)
	}
	return r
}
