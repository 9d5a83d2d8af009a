// Package testutil is shared by the tests of several packages: waiting, the output of a
// process, a directory for sockets, and the commands of this module, built once.
package testutil
