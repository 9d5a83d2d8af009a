//go:build !linux || !(amd64 || arm64)

// Package hangup does nothing on this platform.
package hangup
