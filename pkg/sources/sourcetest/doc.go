// Package sourcetest is the contract of a source as tests: what package sources says
// that every source owes. A source passes them with
//
//	func TestContract(t *testing.T) {
//		sourcetest.Run(t, func(t *testing.T) sourcetest.Place { return newPlace(t) })
//	}
//
// where a Place is whatever the source reads, with the means to change it and to
// make it unavailable. It should be the real thing: a directory, a web server, an
// apiserver.
package sourcetest
