package http

import (
	"io"
	"log"
)

// discard is for what the servers of these tests have to say of broken connections.
var discard = log.New(io.Discard, "", 0)
