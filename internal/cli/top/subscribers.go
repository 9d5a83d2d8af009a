package top

import (
	"fmt"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// subscribersPane shows the subscribers and their lag.
type subscribersPane struct{ m *model }

func (p subscribersPane) all() []v1alpha1.Subscriber {
	if p.m.status == nil {
		return nil
	}
	return p.m.status.Subscribers
}

func (p subscribersPane) title() (name, about string) {
	return "Subscribers", p.m.count(len(p.all()))
}

func (p subscribersPane) columns() []column {
	return []column{{title: "CLIENT", flexible: true}, {title: "LAG"}, {title: "RESETS"}, {title: "MODE", optional: true}, {title: "AGE"}, {title: "AGENT", flexible: true}}
}

func (p subscribersPane) len() int         { return len(p.all()) }
func (p subscribersPane) key(i int) string { return fmt.Sprint(p.all()[i].ID) }

func (p subscribersPane) row(i int) []cell {
	s, styles := &p.all()[i], p.m.styles
	lag := cell{text: fmt.Sprint(s.Lag)}
	if s.Lag > 0 {
		lag.style = styles.warn
	}
	agent := s.UserAgent
	if s.PID != 0 && int(s.PID) == p.m.config.PID {
		agent += " (this view)"
	}
	return []cell{{text: clientOf(s)}, lag, {text: fmt.Sprint(s.Resets)}, {text: string(s.Mode)}, {p.m.since(&s.Since), styles.dim}, {text: agent}}
}

func (p subscribersPane) note() (string, bool) { return p.m.statusNote("no subscribers") }

func (p subscribersPane) open(i int) *detail {
	s := p.all()[i]
	return p.m.objectDetail(fmt.Sprintf("Subscriber %d", s.ID), &s)
}

// clientOf names the client of a subscriber: its process, or its address with the user.
func clientOf(s *v1alpha1.Subscriber) string {
	switch {
	case s.User != "":
		return s.User + "@" + s.Address
	case s.Address != "":
		return s.Address
	}
	return fmt.Sprintf("pid %d", s.PID)
}
