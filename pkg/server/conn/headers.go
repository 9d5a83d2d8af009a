package conn

// headerScanner finds the ends of request headers. A header ends at an empty line that is not
// its first line.
type headerScanner struct {
	// begun is true after a line that is not empty. line is true if the current line is not
	// empty.
	begun, line bool
	// ended is true if the last byte ended a header.
	ended bool
}

// next returns the number of bytes up to and including the first end of a header, or all.
func (s *headerScanner) next(data []byte) int {
	for i, b := range data {
		s.ended = b == '\n' && s.begun && !s.line
		switch {
		case s.ended:
			*s = headerScanner{ended: true}
			return i + 1
		case b == '\n':
			s.line = false
		case b != '\r':
			s.begun, s.line = true, true
		}
	}
	return len(data)
}
