// Package lazyregexp compiles regular expressions at their first use. To compile one takes about 50 µs and 10 kB, in each start of
// each command, and most commands use few of them.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. The function panics if the expression is invalid.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
