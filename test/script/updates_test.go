package script

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// cmdSubscribe reads another stream of the daemon.
func (sc *scenario) cmdSubscribe(in *invocation) error {
	if in.neg || len(in.args) < 1 || len(in.args) > 2 {
		return errUsage
	}
	var query url.Values
	if len(in.args) == 2 {
		var err error
		if query, err = url.ParseQuery(in.args[1]); err != nil {
			return err
		}
	}
	_, err := sc.follow(in.args[0], query)
	return err
}

// follow opens a stream and waits until it has the current state, unless it resumes.
func (sc *scenario) follow(name string, query url.Values) (*stream, error) {
	s, err := subscribeTo(sc.tb.Context(), sc.http, query, name != "")
	if err != nil {
		return nil, err
	}
	sc.streams[name] = s
	if !query.Has("since") {
		err = s.wait(func() bool { return s.synced })
	}
	return s, err
}

// expectation is what a script expects of a stream.
type expectation struct {
	lines []string
	// loose: in any order and in any updates; together: from one change.
	loose, together bool
}

// cmdUpdates waits until a stream has the expected updates, and checks that it has no
// others.
func (sc *scenario) cmdUpdates(in *invocation) error {
	name, want, err := sc.expected(in)
	if err != nil {
		return err
	}
	s := sc.streams[name]
	if s == nil {
		return fmt.Errorf("there is no stream %q", name)
	}
	barrierOnly := sc.barrierOnly() // no barrier can be added now
	err = s.wait(func() bool {
		got := want.arrange(withoutBarriers(s.updates, barrierOnly))
		return len(got) >= len(want.lines) || !want.loose && !isPrefix(got, want.lines)
	})
	if err == nil && sc.daemon != nil && want.compare(s.pending(barrierOnly)) == nil {
		err = sc.nothingMore(name)
	}
	if mismatch := want.compare(s.pending(sc.barrierOnly())); mismatch != nil {
		return errors.Join(mismatch, err)
	}
	if err != nil {
		return err
	}
	s.forget()
	in.ts.Setenv("REVISION", strconv.FormatInt(sc.streams[""].revision(), 10))
	return nil
}

// nothingMore returns when the stream has all updates of earlier changes. For another
// stream than the daemon's, these are the changes that the daemon's stream has.
func (sc *scenario) nothingMore(name string) error {
	own := sc.streams[""]
	if name == "" {
		return sc.barrier()
	}
	if len(own.pending(nil)) > 0 {
		return errors.New("the updates of the daemon's own stream are to be named first")
	}
	// A stream without the barrier's pod soon gets a bookmark of its revision.
	newest := own.revision()
	s := sc.streams[name]
	return s.wait(func() bool { return s.newest >= newest })
}

// expected parses the command's arguments.
func (sc *scenario) expected(in *invocation) (stream string, want expectation, err error) {
	args := in.args
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch {
		case args[0] == "-loose":
			want.loose = true
		case args[0] == "-together":
			want.together = true
		case args[0] == "-of" && len(args) > 1:
			stream, args = args[1], args[1:]
		case args[0] == "-file" && len(args) > 1:
			lines := strings.TrimSpace(in.ts.ReadFile(args[1]))
			want.lines, args = strings.Split(lines, "\n"), args[1:]
		default:
			return "", want, errUsage
		}
		args = args[1:]
	}
	want.lines = append(want.lines, args...)
	if in.neg != (len(want.lines) == 0) || want.loose && want.together {
		return "", want, errUsage
	}
	if want.loose {
		slices.Sort(want.lines)
	}
	return stream, want, nil
}

// arrange returns the updates in the form of the expectation.
func (e *expectation) arrange(updates []update) []string {
	var lines []string
	for _, u := range updates {
		if !e.loose {
			lines = append(lines, u.String())
			continue
		}
		for _, u := range u.each() {
			lines = append(lines, u.String())
		}
	}
	if e.loose {
		slices.Sort(lines)
	}
	return lines
}

// compare returns the differences between the updates and the expected ones.
func (e *expectation) compare(updates []update) error {
	got := e.arrange(updates)
	if !slices.Equal(e.lines, got) {
		return fmt.Errorf("the script expects%s\nthe stream has%s", indent(e.lines), indent(got))
	}
	if !e.together {
		return nil
	}
	for i, u := range updates[1:] {
		// All updates of one set have the same time.
		if !u.follows(updates[i].revision) || !u.at.Equal(updates[i].at) {
			return fmt.Errorf("these did not come out of one change:%s", indent(got))
		}
	}
	return nil
}

// indent returns the lines as an indented block.
func indent(lines []string) string {
	if len(lines) == 0 {
		return " nothing"
	}
	return ":\n\t" + strings.Join(lines, "\n\t")
}

func isPrefix(of, whole []string) bool {
	return len(of) <= len(whole) && slices.Equal(of, whole[:len(of)])
}
