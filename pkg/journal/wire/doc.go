// Package wire encodes pods and frames as JSON and as protobuf. The first subscriber that
// needs a version of a pod, or the header of a frame, encodes it. All subscribers share
// the bytes.
package wire
