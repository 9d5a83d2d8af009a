// Package follow tells which files at a manifest path may have changed. It knows
// the path, the symbolic links on the way to it and in it, the inotify watches and
// the polling. It reads no file.
//
// # When a change is reported
//
// At once when inotify reports an event, and at each full relist besides. Watched
// are the directory, the directory that holds it, and every directory that a
// symbolic link on the way to a file stands in or leads to. Where inotify can't be
// had, the path is polled. A mount or unmount, anywhere, makes a listing: inotify does
// not report what is mounted over a directory.
//
// Every directory that matters is watched before the files that depend on it are
// reported. Whoever looks at a file after it was reported therefore misses nothing:
// a later change is another event.
package follow
