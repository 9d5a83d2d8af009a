// Package e2e runs the real binary on a real socket.
package e2e
