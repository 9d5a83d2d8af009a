// Package script runs the scripts in testdata with the real command. A script changes
// files and checks the updates of the daemon.
//
// A script is a txtar archive in the language of
// [github.com/rogpeppe/go-internal/testscript]. It starts with a comment of one line that
// says what it shows. It runs in its own directory, $WORK. podconfigd is on its PATH, and
// PODCONFIGD_SOCKET is set, so "exec podconfigctl status" connects to the script's own
// daemon. The node name is node1. Files are changed by the usual tools: exec cp, sed,
// vim.tiny, rsync.
//
// # Commands
//
// In addition to the commands of testscript:
//
//	daemon [-path PATH] [-via 'PROGRAM ARG…'] [-unready] [FLAG…]
//
// starts podconfigd on the directory $WORK/m or on the given path, waits until it is
// ready (except with -unready), and reads its stream from the start. With -via, another
// program starts it. The relist interval is an hour unless a flag sets it, so all changes
// are detected by inotify. The command sets $DAEMON_PID, $INSTANCE, $START, which is the
// revision before the first update, and $REVISION, the newest one.
//
//	promptly PROGRAM [ARG…]
//
// is exec for a program that replaces a file in two steps, which the daemon takes for one
// change only if there are less than 50 ms between them. The daemon is stopped meanwhile, and
// so it sees both at once, also on a slow machine.
//
//	shutdown [-kill]
//
// ends the daemon. Unless it is killed, it must exit with 0, end its streams and remove
// its socket. At the end of a script, a running daemon is shut down in the same way.
//
//	updates [-of STREAM] [-loose | -together] [-file FILE] [LINE…]
//	! updates [-of STREAM]
//
// wait until the stream has sent exactly these updates, or none, since the last such
// command, in this order, and check that no more follow. A line has an operation, the
// source and the pods with their images:
//
//	ADD file default/db-node1 [postgres:18] default/web-node1 [nginx:1,log:2]
//
// With -together, the updates must be from one change. With -loose, each line has one
// pod, and the lines may come in any order and number of updates. Use it for several
// files that are written one after the other. The lines of FILE come before the others.
// The command sets $REVISION.
//
// Without -of, the stream is that of daemon. Check this stream first: the command waits
// until all effects of the changes are there, and the other streams are compared up to
// that point.
//
//	subscribe STREAM [QUERY]
//
// reads another stream, with the parameters of /v1alpha1/updates. In addition to updates
// it has the lines "BOOKMARK initialSyncComplete" and "BOOKMARK reset".
//
//	status STATE FILE [REGEXP]
//
// waits until the verdict on the file is Accepted, Rejected, Held, Shadowed or Ignored, and
// "Reason: Message; Warning" matches. The state absent means that there is no verdict.
//
//	source KEY=REGEXP…
//
// waits until the status of the file source matches. Each regular expression must match
// the whole value: absent, degraded, lastError, manifests and pods (their numbers), seen,
// watch, watchError.
//
//	pods [NAMESPACE/NAME…]
//
// fails unless /pods has exactly these, in this order.
//
//	await REGEXP FILE
//
// waits until a file that another process writes matches.
//
//	write-slowly FROM TO N
//
// writes a copy of a file in N pieces and keeps it open until the last one. After each
// piece, it waits until the daemon has looked at the file.
//
//	exchange FILE FILE
//
// swaps two files in one step.
//
//	mksock FILE
//
// makes a socket on which nothing listens.
//
// # Conditions
//
// [root]; [mknod]: the script can make devices; [lease]: the file system reports whether
// a file is open; [userns]: there are user namespaces with their own limits for inotify.
//
// # Checks in every script
//
// All streams are checked: revisions increase, none is missing, no pod is added twice or
// changed when it is not there. At each "updates", the pods of the daemon's stream are
// compared with /pods. A script must expect every update, and the daemon must end well.
//
// Nothing sleeps. To check that no more updates follow, the package uses a barrier: it
// puts its own manifest into the directory. The update for its pod comes after the
// updates for all earlier changes. Scripts do not see this pod, which is in the namespace
// barrier, except with "exec podconfigctl watch".
package script
