package history

import "testing"

// durable is what a subscriber of everything gets. Before 2000000, the daemon was started again.
const durable = `
ADD a@1/x
BOOKMARK 10 synced
ADD 11 b@2/x
UPDATE 12 a@3/y
UPDATE 2000000 a@4/x
REMOVE 2000001 b@2/x`

var ofADurableJournal = Options{MaxUpdates: 100, Durable: true}

func TestRightRestarts(t *testing.T) {
	r := Check([]*History{
		subscriber("whole", connection(t, 0, durable)),
		subscriber("cut",
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x"),
			connection(t, 11, "UPDATE 12 a@3/y\nBOOKMARK 12\nUPDATE 2000000 a@4/x\nREMOVE 2000001 b@2/x\nBOOKMARK 2000001"),
		),
	}, ofADurableJournal)
	for _, v := range r.Violations {
		t.Errorf("a right history is refused: %v", v)
	}
	if r.Unknown != 0 || r.Resumes != 1 {
		t.Errorf("the report: %v", r)
	}
}

func TestWrongRestarts(t *testing.T) {
	for name, test := range map[string]struct {
		promise     Promise
		connections []*Connection
	}{
		"an update from before the restart is missing": {Resumable, []*Connection{
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x"),
			connection(t, 11, "UPDATE 2000000 a@4/x"),
		}},
		"an update from after the restart is missing": {Reliable, []*Connection{
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nUPDATE 12 a@3/y\nREMOVE 2000001 b@2/x"),
		}},
		"a reset": {Reliable, []*Connection{
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced"),
			connection(t, 10, "BOOKMARK reset\nADD a@3/y b@2/x\nBOOKMARK 12 synced"),
		}},
		"another instance": {Reliable, []*Connection{
			connection(t, 0, "ADD a@1/x\nBOOKMARK 10 synced"),
			connection(t, 0, "ADD i2 a@3/y b@2/x\nBOOKMARK i2 2000000 synced"),
		}},
		"the present pods are not those of the log": {Bookmarkable, []*Connection{
			connection(t, 0, "ADD a@3/y\nBOOKMARK 12 synced"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			refusedFor(t, test.promise, Check([]*History{
				subscriber("whole", connection(t, 0, durable)), subscriber("other", test.connections...),
			}, ofADurableJournal))
		})
	}
	t.Run("an update that changes nothing", func(t *testing.T) {
		refusedFor(t, Unique, Check([]*History{subscriber("whole", connection(t, 0, durable+"\nUPDATE 4000000 a@4/x"))}, ofADurableJournal))
	})
	t.Run("410 in the Kubernetes API", func(t *testing.T) {
		refusedFor(t, Reliable, Check([]*History{
			subscriber("whole", connection(t, 0, durable)),
			{Subscriber: "names", View: Names, Connections: []*Connection{connection(t, 0, "LIST 12 a@3/y b@2/x"), connection(t, 12, "BOOKMARK reset")}},
		}, ofADurableJournal))
	})
}

// Behind the first set of a source after a restart, there is a bookmark that nobody may have got.
func TestUnsentBookmarks(t *testing.T) {
	const before = "ADD a@1/x\nBOOKMARK 10 synced\nADD 11 b@2/x\nUPDATE 2000000 a@3/y\n"
	r := Check([]*History{subscriber("whole", connection(t, 0, before+"ADD 2000002 c@4/x\nADD 2000003 d@5/x"))}, ofADurableJournal)
	if len(r.Violations) > 0 {
		t.Errorf("a right history is refused: %v", r.Violations)
	}
	for _, after := range []string{"ADD 2000003 c@4/x", "ADD 2000001 c@4/x\nADD 2000003 d@5/x"} {
		refusedFor(t, Reliable, Check([]*History{subscriber("whole", connection(t, 0, before+after))}, ofADurableJournal))
	}
}
