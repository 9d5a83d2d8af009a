// Package terminal tests "podconfigctl top" in a real terminal: tmux runs it against a daemon,
// sends keys, and returns what the screen shows. A test waits until the screen shows what it
// expects.
package terminal
