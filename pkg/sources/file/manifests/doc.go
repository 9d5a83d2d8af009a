// Package manifests makes a set of pods of manifest files. It reads and decodes the files
// that may have changed, decides which file has which name and UID, and has a verdict on
// each file. The caller passes the names of the files: the package does not look at the
// path itself.
package manifests
