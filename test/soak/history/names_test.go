package history

import "testing"

// set is a log in which names change their pods. The updates of time 12 are one set: the pod
// of name a gets another UID.
const sets = `
ADD a=1@1
BOOKMARK 10 synced
ADD 11 b@2
REMOVE 12 t12 a=1@1
ADD 13 t12 a=2@3
UPDATE 14 b@4`

func informer(name string, connections ...*Connection) *History {
	return &History{Subscriber: name, View: Names, Connections: connections}
}

const listed = "LIST 10 a=1@1"

func TestRightNames(t *testing.T) {
	r := accepts(t, subscriber("log", connection(t, 0, sets)),
		informer("cut", connection(t, 0, listed),
			connection(t, 10, "ADD 11 b@2\nREMOVE 12 a=1@1"), // within the set
			connection(t, 12, "ADD 13 a=2@3\nBOOKMARK 13"),
			connection(t, 13, "UPDATE 14 b@4\nBOOKMARK 14")),
		informer("present pods", connection(t, 0, "ADD 9 a=1@1\nBOOKMARK 10 synced\nADD 11 b@2")),
		// It was cut within the present pods of revision 14: b was 11 then, before 14.
		informer("cut within the present pods", connection(t, 0, "ADD 13 a=2@3"), connection(t, 13, "UPDATE 14 b@4")),
		&History{Subscriber: "selects", View: Names, Selection: Selection{Name: "a"}, Connections: []*Connection{
			connection(t, 0, listed), connection(t, 10, "REMOVE 12 a=1@1\nADD 13 a=2@3\nBOOKMARK 14"),
		}})
	if r.Compared < 10 || r.Unknown > 2 {
		t.Errorf("the report: %v", r)
	}
}

func TestNamesOrdered(t *testing.T) {
	refuses(t, Ordered, subscriber("log", connection(t, 0, sets)),
		informer("turned", connection(t, 0, listed), connection(t, 10, "ADD 11 b@2\nREMOVE 13 a=1@1\nADD 12 a=2@3")))
}

func TestNamesUnique(t *testing.T) {
	refuses(t, Unique, subscriber("log", connection(t, 0, sets)),
		informer("again", connection(t, 0, listed), connection(t, 10, "ADD 11 b@2"), connection(t, 11, "ADD 11 b@2")))
	refuses(t, Unique, subscriber("log", connection(t, 0, sets)),
		informer("added twice", connection(t, 0, listed), connection(t, 10, "ADD 11 b@2\nREMOVE 12 a=1@1\nADD 13 a=2@3\nADD 14 b@4")))
	refuses(t, Unique, informer("list", connection(t, 0, "LIST 10 a@1 a@1")))
}

func TestNamesReliable(t *testing.T) {
	refuses(t, Reliable, subscriber("log", connection(t, 0, sets)),
		informer("gap", connection(t, 0, listed), connection(t, 10, "ADD 11 b@2\nREMOVE 12 a=1@1\nUPDATE 14 b@4")))
	refuses(t, Reliable, subscriber("log", connection(t, 0, sets)), informer("old list", connection(t, 0, "LIST 11 a=1@1")))
	refuses(t, Reliable, subscriber("log", connection(t, 0, sets)), informer("gone without a cause",
		connection(t, 0, listed), connection(t, 10, "ADD 11 b@2\nBOOKMARK reset"), connection(t, 0, "LIST 13 a=2@3 b@2")))
}

func TestNamesAtomic(t *testing.T) {
	refuses(t, Atomic, subscriber("log", connection(t, 0, sets)),
		informer("not deleted", connection(t, 0, listed), connection(t, 10, "ADD 11 b@2\nUPDATE 13 a=2@3")))
}

func TestNamesResumable(t *testing.T) {
	refuses(t, Resumable, subscriber("log", connection(t, 0, sets)),
		informer("skips", connection(t, 0, listed), connection(t, 10, "ADD 11 b@2"), connection(t, 11, "UPDATE 14 b@4")))
	refuses(t, Resumable, informer("no revision", connection(t, 0, listed), connection(t, 10, "ADD b@2")))
}

func TestNamesBookmarkable(t *testing.T) {
	refuses(t, Bookmarkable, subscriber("log", connection(t, 0, sets)),
		informer("early", connection(t, 0, listed), connection(t, 10, "BOOKMARK 11\nADD 11 b@2")))
	refuses(t, Bookmarkable, subscriber("log", connection(t, 0, sets)),
		informer("early, selected", connection(t, 0, listed), connection(t, 10, "ADD 11 b@2\nBOOKMARK 13")))
}

// A mirror pod is only shown if there is no other pod of the name.
func TestMirrorPods(t *testing.T) {
	log := subscriber("log", connection(t, 0, "BOOKMARK 10 synced\nADD 11 api:a=m@1/mirror\nADD 12 a=1@2\nREMOVE 13 api:a=m@1/mirror"))
	accepts(t, log, podsAPI("Pods API", connection(t, 0, "BOOKMARK synced\nADD a=1@2")), &History{
		Subscriber: "no mirror pods", Selection: Selection{NoMirrors: true}, Connections: []*Connection{
			connection(t, 0, "BOOKMARK 10 synced\nADD 12 a=1@2\nBOOKMARK 13"),
		},
	})
	refuses(t, Reliable, log, informer("shows the mirror pod", connection(t, 0, "LIST 12 api:a=m@1/mirror")))
	refuses(t, Reliable, log, podsAPI("shows the mirror pod", connection(t, 0, "BOOKMARK synced\nADD api:a=m@1/mirror")))
}
