// Package manifests makes a set of pods of manifest files: it reads and decodes
// the files that may have changed, decides which file may have which name and UID,
// and has a verdict on each file. It finds out nothing about the path by itself: it
// is told which files to look at.
package manifests
