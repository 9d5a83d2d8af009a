// Package file is the source of static pods: a directory of manifests, or a
// single one. It puts together packages
// [github.com/podconfigd/podconfigd/pkg/sources/file/follow], which reports the files
// that may have changed, and
// [github.com/podconfigd/podconfigd/pkg/sources/file/manifests], which makes a set of
// pods of them.
//
// # What is read
//
// In a directory, every entry whose name does not begin with a dot, in lexical
// order and without going into subdirectories; symbolic links are followed. Each
// file holds one v1 Pod in YAML or JSON. This is the kubelet's rule
// (pkg/kubelet/config/file.go).
//
// # When
//
// At once when inotify reports a change, and every period besides. Watched are
// the directory, the directory that holds it, and every directory that a symbolic
// link on the way to a manifest stands in or leads to; so a volume of a ConfigMap,
// whose files all change when its "..data" link is replaced, gives one set. Where
// inotify can't be had the source polls instead and says so. A mount or unmount makes
// a listing too, for inotify does not report it.
//
// A file that did not change is not read, and one whose bytes did not change is
// not decoded. A file that somebody has open for writing is left until they close
// it, for as long as it was modified within the last second.
//
// # What is kept
//
//   - A manifest that turns bad keeps its last good pod, until the file is gone for
//     50 ms. An editor that moves a file away and writes a new one makes one change,
//     not two.
//   - Where two files give a pod the same name or the same UID, the one that had it
//     keeps it; at a first listing that is the first by name. The other is reported
//     and takes over when the first one goes.
//   - A path that vanishes after it was read keeps its set, and the source is
//     degraded; an empty directory in its place clears it. A path that was never
//     there is an empty set.
//
// Every manifest has a verdict, which [Source.Status] lists.
package file
