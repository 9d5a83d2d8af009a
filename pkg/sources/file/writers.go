package file

// writerCount is how many processes have a file open for writing, as far as that
// can be known.
type writerCount int

const (
	unknownWriters writerCount = iota
	noWriters
	someWriters
)
