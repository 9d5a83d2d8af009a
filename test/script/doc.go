// Package script runs the scripts in testdata against the real command: what is
// done to files, and what the daemon then tells.
//
// A script is a txtar archive in the language of
// [github.com/rogpeppe/go-internal/testscript]. It begins with a comment that says
// in one line what it shows, and runs in a directory of its own, $WORK, with
// podconfigd on its PATH and PODCONFIGD_SOCKET set, so that "exec podconfigd status"
// asks the script's own daemon. The node is called node1. What tools do to files is
// left to the tools: exec cp, sed, vim.tiny, rsync.
//
// # Commands
//
// These are there beside testscript's own:
//
//	daemon [-path PATH] [-via 'PROGRAM ARG…'] [-unready] [FLAG…]
//
// starts podconfigd on the directory $WORK/m or on the path as it is given, waits
// until it is ready (not so with -unready), and reads its stream from the present
// state on. With -via another program is to start it. The path is listed anew once an
// hour unless a flag says otherwise: what is told is told by inotify. The command sets
// $DAEMON_PID, $INSTANCE, $START, which is the revision before the first update, and
// $REVISION, the newest one.
//
//	shutdown [-kill]
//
// ends the daemon. Unless it is killed it must exit with 0, end its streams and
// remove its socket. A daemon that still runs when the script ends is shut down so.
//
//	updates [-of STREAM] [-loose | -together] [-file FILE] [LINE…]
//	! updates [-of STREAM]
//
// wait until the stream has told these updates, or none, since the last such command,
// in this order and nothing else, and see to it that nothing more is to come. A line
// is an operation, the source and the pods with their images:
//
//	ADD file default/db-node1 [postgres:18] default/web-node1 [nginx:1,log:2]
//
// With -together they must have come out of one change. With -loose each line is for
// one pod, and they may come in any order and number of updates: that is for several
// files that are written one after the other. The lines of FILE count before the
// others. The command sets $REVISION.
//
// Without -of the stream is that of daemon. An "updates" for it goes before those for
// others, which tell what followed from the same changes.
//
//	subscribe STREAM [QUERY]
//
// reads another stream, with the parameters of /v1alpha1/updates. Unlike daemon's it
// also has the lines "BOOKMARK initialSyncComplete" and "BOOKMARK reset".
//
//	status STATE FILE [REGEXP]
//
// waits until the verdict on the file of that name is Accepted, Rejected, Held or
// Shadowed, with "Reason: Message; Warning" to match; or until there is none, which
// is called absent.
//
//	source KEY=REGEXP…
//
// waits until the status of the file source matches, each value as a whole: absent,
// degraded, lastError, manifests and pods (their numbers), seen, watch, watchError.
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
// writes a copy of a file in N pieces and keeps it open until the last; the daemon
// has looked at the file after each of them.
//
//	exchange FILE FILE
//
// has two files change places in one step.
//
//	mksock FILE
//
// makes a socket that nobody listens on.
//
// # Conditions
//
// [root]; [mknod], the right to make devices; [lease], whether the file system tells
// if a file is open; [userns], whether there are user namespaces with limits of their
// own for inotify.
//
// # What holds in every script
//
// All streams are held to what they promise: revisions grow, none is missing, no pod
// is added twice or changed when it isn't there. What the daemon's stream adds up to
// is compared with /pods at each "updates". A script must account for every update,
// and the daemon must end well.
//
// Nothing sleeps. That nothing more is to come is found out by a barrier: a manifest
// of the harness's own is put into the directory, and what it gives comes after all
// that was done before. Scripts don't see its pod, which is in the namespace barrier;
// "exec podconfigd watch" does.
package script
