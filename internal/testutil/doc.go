// Package testutil holds what the tests of several packages need: waiting, the output of
// a process, a place for sockets, and the commands of this module, built once.
package testutil
