// Package sourcetest tests a source against the contract in package sources. A source
// uses it as follows:
//
//	func TestContract(t *testing.T) {
//		sourcetest.Run(t, func(t *testing.T) sourcetest.Place { return newPlace(t) })
//	}
//
// A Place is what the source reads, with methods that change it and make it unavailable.
// It should be real: a directory, a web server, an apiserver.
package sourcetest
