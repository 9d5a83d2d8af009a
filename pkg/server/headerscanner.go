package server

// headerScanner finds where the headers of requests end: at an empty line that is not
// the first.
type headerScanner struct {
	// begun: there was a line that is not empty. line: the current one is not.
	begun, line bool
	// ended: the last byte ended a header.
	ended bool
}

// next returns how many bytes there are until the first end of a header, that included.
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
