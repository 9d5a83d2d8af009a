// Package powercut cuts the power under the journal's log: it runs on pebble's file system
// in memory, which forgets at a cut what was not synced, or keeps some of its blocks.
//
// It is a module of its own, so that pebble is nobody else's dependency.
package powercut
