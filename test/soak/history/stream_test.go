package history

import "testing"

// full is what a subscriber of everything gets if it is never cut. The update of 14 has two pods,
// in two pieces.
const full = `
ADD a@1/x
BOOKMARK 10 synced
ADD 11 b@2/x
UPDATE 12 a@3/y
ADD t14 continues c@4/x
ADD 14 d@4/y
REMOVE 15 b@2/x
BOOKMARK 15
UPDATE 16 a@5/x`

func subscriber(name string, connections ...*Connection) *History {
	return &History{Subscriber: name, Connections: connections}
}

func TestRightStreams(t *testing.T) {
	whole := subscriber("whole", connection(t, 0, full))
	r := accepts(t, whole, subscriber("cut",
		connection(t, 0, "ADD a@1/x"), // before the first revision: it begins again
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x"),
		connection(t, 11, "UPDATE 12 a@3/y\nADD t14 continues c@4/x"), // within an update
		connection(t, 12, "ADD t14 continues c@4/x\nADD 14 d@4/y\nREMOVE 15 b@2/x\nBOOKMARK 15"),
		connection(t, 15, ""),
		connection(t, 15, "UPDATE 16 a@5/x"),
	), &History{
		Subscriber: "selects", Selection: Selection{Tier: "x"}, Connections: []*Connection{
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nREMOVE 12 a@1/x\nADD 14 c@4/x"),
			connection(t, 14, "REMOVE 15 b@2/x\nADD 16 a@5/x\nBOOKMARK 16"),
		},
	}, &History{
		Subscriber: "operations", Ops: []string{Remove}, Connections: []*Connection{
			connection(t, 0, "BOOKMARK 10 synced\nBOOKMARK 14\nREMOVE 15 b@2/x\nBOOKMARK 16"),
		},
	})
	if r.Updates != 5 || r.Resumes != 5 || r.Unknown != 0 || r.Compared < 20 {
		t.Errorf("the report: %v", r)
	}
}

func TestRightResets(t *testing.T) {
	whole := subscriber("whole", connection(t, 0, full))
	whole.Connections = append(whole.Connections, connection(t, 16, `
BOOKMARK i2 reset
ADD i2 a@5/x c@4/x
BOOKMARK 100 i2 synced
ADD 101 i2 e@6`))
	accepts(t, whole, subscriber("cut within the present pods",
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced"),
		connection(t, 10, "BOOKMARK i2 reset\nADD i2 a@5/x"),
		connection(t, 10, "BOOKMARK i2 reset\nADD i2 a@5/x c@4/x\nBOOKMARK 100 i2 synced"),
	))

	// It fell behind: of the 100 updates that are kept, so many came meanwhile.
	fast, slow := connection(t, 0, "BOOKMARK 10 synced"), connection(t, 0, "BOOKMARK 10 synced\nBOOKMARK reset")
	for revision := int64(11); revision < 211; revision++ {
		fast.Messages = append(fast.Messages, &Message{Instance: "i1", Op: Update, Revision: revision, Pods: []Pod{pod("a@1")}})
	}
	slow.Messages = append(slow.Messages, message(t, []string{"ADD", "a@1"}), message(t, []string{"BOOKMARK", "210", "synced"}))
	accepts(t, subscriber("fast", fast), subscriber("slow", slow))
}

func TestStreamOrdered(t *testing.T) {
	refuses(t, Ordered, subscriber("whole", connection(t, 0, full)),
		subscriber("bookmark", connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nBOOKMARK 10")))
	refuses(t, Ordered, subscriber("whole", connection(t, 0, full)), &History{
		Subscriber: "turned", Selection: Selection{Tier: "x"}, Connections: []*Connection{
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nREMOVE 12 a@1/x\nADD 14 c@4/x\nUPDATE 13 c@4/x"),
		},
	})
}

func TestStreamUnique(t *testing.T) {
	refuses(t, Unique, subscriber("whole", connection(t, 0, full)),
		subscriber("twice", connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nADD 11 b@2/x")))
	refuses(t, Unique, subscriber("whole", connection(t, 0, full)), subscriber("again",
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x"),
		connection(t, 11, "ADD 11 b@2/x\nUPDATE 12 a@3/y")))
	refuses(t, Unique, subscriber("present pods", connection(t, 0, "ADD a@1/x\nADD a@1/x\nBOOKMARK 10 synced")))
}

func TestStreamReliable(t *testing.T) {
	refuses(t, Reliable, subscriber("whole", connection(t, 0, full)),
		subscriber("gap", connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nUPDATE 12 a@3/y")))
	refuses(t, Reliable, subscriber("whole", connection(t, 0, full)), &History{
		Subscriber: "selects", Selection: Selection{Tier: "x"}, Connections: []*Connection{
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nADD 14 c@4/x"),
		},
	})
	// Nobody got 11.
	refuses(t, Reliable, subscriber("all", connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nUPDATE 12 a@3/y")))
	// A reset without a cause.
	refuses(t, Reliable, subscriber("whole", connection(t, 0, full)), subscriber("reset",
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x"),
		connection(t, 11, "BOOKMARK reset\nADD a@3/y b@2/x c@4/x d@4/y\nBOOKMARK 14 synced")))
}

func TestStreamAtomic(t *testing.T) {
	refuses(t, Atomic, subscriber("whole", connection(t, 0, full)), subscriber("half",
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nUPDATE 12 a@3/y\nADD 14 d@4/y")))
	refuses(t, Atomic, subscriber("whole", connection(t, 0, full)), subscriber("interrupted",
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nUPDATE 12 a@3/y\nADD t14 continues c@4/x\nBOOKMARK 12")))
	// Two pods have one revision.
	refuses(t, Atomic, subscriber("all", connection(t, 0, "BOOKMARK 10 synced\nADD 11 a@1 b@2")))
	refuses(t, Atomic, subscriber("whole", connection(t, 0, full)), &History{
		Subscriber: "selects", Selection: Selection{Tier: "x"}, Connections: []*Connection{
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nUPDATE 12 a@3/y"),
		},
	})
}

func TestStreamResumable(t *testing.T) {
	refuses(t, Resumable, subscriber("whole", connection(t, 0, full)), subscriber("skips",
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced"),
		connection(t, 10, "UPDATE 12 a@3/y")))
	refuses(t, Resumable, subscriber("revision in a piece",
		connection(t, 0, "ADD 9 a@1/x\nBOOKMARK 10 synced")))
	refuses(t, Resumable, subscriber("no revision", connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD b@2/x")))
	refuses(t, Resumable, subscriber("another instance",
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced"),
		connection(t, 10, "ADD 101 i2 a@1/x")))
}

func TestStreamBookmarkable(t *testing.T) {
	refuses(t, Bookmarkable, subscriber("whole", connection(t, 0, full)),
		subscriber("early", connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nBOOKMARK 11\nADD 11 b@2/x")))
	const seen = "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nBOOKMARK 12\nUPDATE 13 a@3/y"
	accepts(t, subscriber("whole", connection(t, 0, seen)), subscriber("cut",
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x"), connection(t, 11, "BOOKMARK 12\nUPDATE 13 a@3/y")))
	refuses(t, Bookmarkable, subscriber("late", connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nBOOKMARK 13")))
	refuses(t, Resumable, subscriber("whole", connection(t, 0, seen)), subscriber("loses a bookmark",
		connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x"), connection(t, 11, "UPDATE 13 a@3/y")))
	refuses(t, Bookmarkable, subscriber("whole", connection(t, 0, full)),
		subscriber("present pods", connection(t, 0, "BOOKMARK 10 synced")))
	refuses(t, Bookmarkable, subscriber("whole", connection(t, 0, full)), &History{
		Subscriber: "selects", Selection: Selection{Tier: "x"}, Connections: []*Connection{
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nBOOKMARK 12\nREMOVE 12 a@1/x"),
		},
	})
}

// With an apiserver, the node may take one revision between two updates.
func TestStreamBesideTheNode(t *testing.T) {
	of := func(update string) []*History {
		return []*History{subscriber("all", connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\n"+update))}
	}
	opts := Options{MaxUpdates: 100, Node: true}
	if r := Check(of("UPDATE 12 a@3/y"), opts); len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
	refusedFor(t, Reliable, Check(of("UPDATE 13 a@3/y"), opts))
	// A bookmark has the revision of the node.
	for update, right := range map[string]bool{"BOOKMARK 11": true, "BOOKMARK 12": false, "BOOKMARK 1000010": false} {
		t.Run(update, func(t *testing.T) {
			if r := Check(of(update), opts); (len(r.Violations) == 0) != right {
				t.Errorf("%s: %v", update, r.Violations)
			}
		})
	}
	opts.Durable = true
	if r := Check(of("BOOKMARK 1000010"), opts); len(r.Violations) > 0 {
		t.Errorf("the first bookmark after a start: %v", r.Violations)
	}
}
