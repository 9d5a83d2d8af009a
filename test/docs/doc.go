// Package docs checks the documentation.
//
// It runs the "console" blocks of each Markdown file, in order and in one empty directory
// with the examples and the binary at their usual relative paths. A line that begins with
// "$ " is a command. The lines below it are its output; "…" matches anything. A command
// with output may continue to run after it has printed this output.
package docs
