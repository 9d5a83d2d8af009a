// Package docs keeps what the documentation says true.
//
// Of each Markdown file it runs the blocks marked "console", in order and in one
// empty directory that has the examples and the binary in the places that the
// repository has them. A line that begins with "$ " is a command, the lines below
// it what it prints; "…" stands for anything. A command below which something is
// shown may run on after it has printed that.
package docs
