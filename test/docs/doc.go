// Package docs checks the documentation: README.md and all pages below docs.
//
// Each page is run on a node of its own: a process tree with its own mounts, network, process
// IDs, and empty /etc/kubernetes, /etc/podconfigd, /run and /var/lib. So pages use the paths and
// ports that users have. A page starts in an empty directory, which is also its home, with
// podconfigd in its PATH, bin and examples as in the source tree, and the tree as podconfigd.
//
// What a fenced block is depends on its language, and on an HTML comment in the line before it:
//
//   - "console" is run, in order. A line that begins with "$ " is a command, and lines that begin
//     with "> " continue it. The lines below are its output; "…" matches anything in a line, and
//     alone in a line any number of lines. A command may continue to run after it has printed
//     this output. "$ echo $?" prints the exit code of the command before, which may fail.
//     What a program prints says nothing of what it does next, such as a save: a page that
//     kills the program first shows, by a command that only reads, that it is done.
//   - <!-- file PATH --> writes the block to PATH on the node.
//   - <!-- PATH --> says that the block is a part of this file of the source tree.
//   - <!-- run by NAME --> says that the test, the scenario or "make NAME" runs what the block
//     shows, for example because it needs a cluster.
//   - "text", "json" and "mermaid" are not run. They have no commands.
//   - "yaml" of kind PodConfigdConfiguration is checked by a test of internal/configfile.
//
// All other blocks are refused. Generated pages and the decision records in docs/adr have none
// that are run.
package docs
