// Package follow reports which files at a manifest path may have changed. It handles the
// path, the symbolic links on the way to it and in it, the inotify watches and the
// polling. It reads no file.
//
// # When a change is reported
//
// A change is reported at once when inotify reports an event, and at each full relist.
// The package watches the directory, the directory that contains it, and every directory
// that has a symbolic link on the way to a file, or the target of one. If inotify is not
// available, it polls the path. inotify does not report a mount over the path: polling finds it.
//
// Before a file is reported, all directories that affect it are watched. So a caller that
// looks at a file after it was reported misses nothing: a later change is another event.
package follow
