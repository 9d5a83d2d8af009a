package history

import "testing"

// begun is a log from its beginning. The updates of time 12 are one set.
const begun = `
BOOKMARK 10 synced
ADD 11 a@1
UPDATE 12 t12 a@2
ADD 13 t12 b@3
REMOVE 14 a@2
UPDATE 15 b@4`

func podsAPI(name string, connections ...*Connection) *History {
	return &History{Subscriber: name, View: UIDs, Connections: connections}
}

func TestRightUIDs(t *testing.T) {
	r := accepts(t, subscriber("log", connection(t, 0, begun)),
		podsAPI("cut", connection(t, 0, "BOOKMARK synced\nADD a@1\nADD b@3"), // in any order within a set
			connection(t, 0, "ADD a@2\nADD b@3\nBOOKMARK synced\nREMOVE a@2"),
			connection(t, 0, "ADD b@3"),
			connection(t, 0, "ADD b@4\nBOOKMARK synced")))
	if r.Compared < 8 || r.Unknown != 0 {
		t.Errorf("the report: %v", r)
	}
}

func TestUIDsOrdered(t *testing.T) {
	refuses(t, Ordered, podsAPI("back", connection(t, 0, "ADD a@2\nBOOKMARK synced\nUPDATE a@1")))
	refuses(t, Ordered, podsAPI("back, on another connection", connection(t, 0, "ADD a@2"), connection(t, 0, "ADD a@1")))
}

func TestUIDsUnique(t *testing.T) {
	refuses(t, Unique, subscriber("log", connection(t, 0, begun)),
		podsAPI("twice", connection(t, 0, "BOOKMARK synced\nADD a@1\nADD a@1")))
	refuses(t, Unique, subscriber("log", connection(t, 0, begun)),
		podsAPI("the same", connection(t, 0, "ADD a@1\nBOOKMARK synced\nUPDATE a@1")))
}

func TestUIDsReliable(t *testing.T) {
	refuses(t, Reliable, subscriber("log", connection(t, 0, begun)),
		podsAPI("gap", connection(t, 0, "ADD a@1\nBOOKMARK synced\nADD b@3\nREMOVE a@2")))
	refuses(t, Reliable, podsAPI("not there", connection(t, 0, "BOOKMARK synced\nREMOVE a@2")))
}

func TestUIDsBookmarkable(t *testing.T) {
	refuses(t, Bookmarkable, subscriber("log", connection(t, 0, begun)),
		podsAPI("early", connection(t, 0, "ADD a@1\nADD b@3\nBOOKMARK synced")))
	refuses(t, Bookmarkable, subscriber("log", connection(t, 0, begun)),
		podsAPI("within a set", connection(t, 0, "ADD a@2\nBOOKMARK synced")))
}
