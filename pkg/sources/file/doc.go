// Package file is the source of static pods: a directory of manifests, or a single
// manifest. Package [github.com/podconfigd/podconfigd/pkg/sources/file/follow] reports
// the files that may have changed. Package
// [github.com/podconfigd/podconfigd/pkg/sources/file/manifests] makes a set of pods of
// them.
//
// # Which files are read
//
// In a directory, the source reads all files whose names do not begin with a dot, in
// lexical order, except for those that [Options.Ignore] leaves out. It does not read subdirectories. It follows symbolic links. Each file
// has one v1 Pod as YAML or JSON. This is the kubelet's rule
// (pkg/kubelet/config/file.go).
//
// # When files are read
//
// The source reads at once when inotify reports a change, and in addition lists the path
// every period. It watches
//
//   - the directory,
//   - the directory that contains it,
//   - every directory that has a symbolic link on the way to a manifest, or the target of one.
//
// So a volume of a ConfigMap, whose files all change when its "..data" link is replaced,
// gives one set. If inotify is not available, the source polls, and its status shows it.
// A mount or unmount also causes a listing, because inotify does not report it.
//
// A file that did not change is not read, and a file whose bytes did not change is not
// decoded. A file that is open for writing is read after it is closed, or after it has
// not been modified for a second.
//
// # Which pods stay
//
//   - If a manifest becomes bad, its last good pod stays until the file has been gone for
//     50 ms. An editor that moves a file away and writes a new one makes one change, not two.
//   - If two files give a pod the same name or the same UID, the file that had it first keeps
//     it, and gets it back when it is there again. Before that, a file comes before one that looks
//     like a copy of it, for example web.yaml~. Among files that never had the name, one that does not look
//     like a copy is first, then the first by name. The other file is reported, and takes over when the first is removed.
//   - If the path vanishes after it was read, the set stays and the source is degraded. An
//     empty directory at the path removes the pods. A path that never existed is an empty
//     set.
//   - The pods from before a restart are the last good pods of their files. So a manifest that
//     is bad at the start comes back in its last good version, and the file that had a name or a UID
//     keeps it. The path counts as read: if it is absent, the pods stay and the source is
//     degraded. Pods of another path are not restored. The pod of a file that is gone is removed
//     before the first set, so that a source that has been seen has no such pod.
//
// Every manifest has a verdict. [Source.Status] lists them.
package file
