// Package wire has the bytes of pods and frames: as JSON, and as protobuf. A version of a
// pod is encoded once for each form, by the first subscriber that needs it, and all
// share the bytes. So are the headers of frames.
package wire
