package history

import "testing"

func snapshots(name string, connections ...*Connection) *History {
	return &History{Subscriber: name, View: Snapshots, Connections: connections}
}

func TestRightSnapshots(t *testing.T) {
	r := accepts(t, subscriber("log", connection(t, 0, sets+"\nBOOKMARK i2 reset\nBOOKMARK 100 i2 synced")), snapshots("cut",
		connection(t, 0, "SET a=1@1\nBOOKMARK 10 synced\nSET t11 continues a=1@1\nSET 11 b@2"),
		connection(t, 11, "SET t12 continues a=2@3"), // within the SET
		connection(t, 11, "SET 13 a=2@3 b@2\nBOOKMARK 13\nSET 14 a=2@3 b@4\nBOOKMARK i2 reset\nBOOKMARK 100 i2 synced"),
	), &History{Subscriber: "selects", View: Snapshots, Selection: Selection{Name: "b"}, Connections: []*Connection{
		connection(t, 0, "SET\nBOOKMARK 10 synced\nSET 11 b@2\nBOOKMARK 13\nSET 14 b@4"),
	}})
	if r.Compared < 10 || r.Unknown != 0 {
		t.Errorf("the report: %v", r)
	}
}

func TestSnapshotsOrdered(t *testing.T) {
	refuses(t, Ordered, subscriber("log", connection(t, 0, sets)),
		snapshots("back", connection(t, 0, "SET a=1@1\nBOOKMARK 10 synced\nSET 11 a=1@1 b@2\nSET 10 a=1@1")))
}

func TestSnapshotsUnique(t *testing.T) {
	refuses(t, Unique, subscriber("log", connection(t, 0, sets)), snapshots("again",
		connection(t, 0, "SET a=1@1\nBOOKMARK 10 synced\nSET 11 a=1@1 b@2"), connection(t, 11, "SET 11 a=1@1 b@2")))
}

func TestSnapshotsReliable(t *testing.T) {
	refuses(t, Reliable, subscriber("log", connection(t, 0, sets)),
		snapshots("gap", connection(t, 0, "SET a=1@1\nBOOKMARK 10 synced\nSET 11 a=1@1 b@2\nSET 14 a=2@3 b@4")))
}

func TestSnapshotsAtomic(t *testing.T) {
	refuses(t, Atomic, subscriber("log", connection(t, 0, sets)), // in the middle of a set
		snapshots("half", connection(t, 0, "SET a=1@1\nBOOKMARK 10 synced\nSET 11 a=1@1 b@2\nSET 12 b@2")))
}

func TestSnapshotsResumable(t *testing.T) {
	refuses(t, Resumable, subscriber("log", connection(t, 0, sets)), snapshots("skips",
		connection(t, 0, "SET a=1@1\nBOOKMARK 10 synced"), connection(t, 10, "SET 13 a=2@3 b@2")))
}

func TestSnapshotsBookmarkable(t *testing.T) {
	refuses(t, Bookmarkable, subscriber("log", connection(t, 0, sets)),
		snapshots("early", connection(t, 0, "SET a=1@1\nBOOKMARK 10 synced\nBOOKMARK 11")))
	refuses(t, Bookmarkable, subscriber("log", connection(t, 0, sets)),
		snapshots("present pods", connection(t, 0, "SET b@2\nBOOKMARK 10 synced")))
}
