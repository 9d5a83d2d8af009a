//go:build race

package script

// raceEnabled: the tests are built with the race detector, and the daemon is to be
// too.
const raceEnabled = true
