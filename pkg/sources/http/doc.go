// Package http is the source of the pods that a manifest URL serves: a Pod or a
// PodList, in YAML or JSON.
//
// # When it asks
//
// At the start and every period, put off by up to a tenth so that many nodes do not
// ask at once. A server that gives an ETag or, failing that, a Last-Modified is asked
// whether there is anything new, and an answer that there is not costs no decoding; nor
// does a body that is as before. "Not modified" is believed only of the very ETag or time
// that was given, for an older file may replace a newer one. Every eleventh request is
// made without a condition, for a file may be replaced by another of the same time, and a
// cache may answer for a server that it no longer asks. After a failure the next attempt
// comes after a second, then after twice as long each time up to a minute. Retry-After
// makes that longer, up to an hour. The first success ends it.
//
// # What it takes
//
// An answer has 10 MiB at most, unpacked, and 256 KiB of headers. It must be whole within
// 10 seconds, the redirects on the way included, of which there are ten at most.
//
// # What is kept
//
// The pods of the last good answer stay until another good one comes: an error, an
// empty body, garbage, an invalid Pod, a PodList without a valid one or a certificate
// that fails removes nothing, and the source is degraded until it is over. At the start,
// the source is not seen until then. Of a PodList with a valid pod, each is judged for
// itself: a bad one is reported, and the version of it that was good last stays. Only a
// PodList that says so removes pods: one in which they are not, or one of no items.
//
// An item whose name can't be read may be any of the pods that are missing, and these are
// held while there is one. When further pods go missing, and more are missing then than
// items have no name, those that were missing before are removed.
//
// Of two pods of one name or UID in a list the first counts, and the other is
// reported.
//
// # What is secret
//
// The configured headers and the bearer token go to the host of the URL alone, not
// along with a redirect to another, and stand in no log, error or status; nor do
// user and query of the URL.
//
// kubelet: pkg/kubelet/config/http.go.
package http
