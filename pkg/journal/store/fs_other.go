//go:build !unix

package store

// Without unix, a store can only be read.
const noBlock, noFollow = 0, 0

func isLinkOrSocket(error) bool { return false }
