// Package resident gives memory back that the process holds and does not need.
//
// The start of the daemon touches most of the program's file and leaves garbage. The file's pages stay mapped, and the
// garbage stays until the heap has doubled. After a collection, the runtime keeps what it expects to need again.
package resident
