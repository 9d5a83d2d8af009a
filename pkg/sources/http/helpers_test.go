package http

import (
	"io"
	"log"
)

// discard is the log of the servers of these tests, which report broken connections.
var discard = log.New(io.Discard, "", 0)
