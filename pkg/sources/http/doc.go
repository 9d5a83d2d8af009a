// Package http is the source of the pods of a manifest URL, which serves a Pod or a
// PodList, as YAML or JSON.
//
// # Requests
//
// The source sends a request at the start and every period. Each is delayed by up to a tenth of the
// period, so that many nodes do not send theirs at once. An answer with the
// same body as before is not decoded.
// After a failure, the source waits for a second. The wait doubles with each failure, up to a
// minute. Retry-After makes it longer, up to an hour. The first success ends it.
//
// # Limits
//
// An answer has at most 10 MiB, unpacked, and 256 KiB of headers. It must be complete
// within 10 seconds, including at most ten redirects.
//
// # Which pods stay
//
// The pods of the last good answer stay until the next good answer. An error, an empty
// body, garbage, an invalid Pod, a PodList without a valid pod, and an invalid
// certificate remove nothing. Then the source is degraded. At the start, it is not seen
// until the first good answer. In a PodList with a valid pod, each item has its own
// verdict. An invalid item is reported, and its last good version stays. Only a PodList
// can remove pods: the pods that are not in it, or all pods if its items are empty.
//
// An item whose name can't be read may be any of the missing pods. While there is such an
// item, missing pods are held. If further pods are missing, and there are more missing
// pods than items without a name, the pods that were missing before are removed.
//
// If two pods in a list have the same name or UID, the first counts, and the other is
// reported.
//
// # After a restart
//
// The pods from before a restart are the last good versions of their items, if the URL is
// the same.
//
// # Secrets
//
// The configured headers and the bearer token are sent only to the host of the URL, not to the
// target of a redirect to another host. Logs, errors and the status contain neither these secrets
// nor the user and the query of the URL. What is stored for a restart has only digests.
//
// kubelet: pkg/kubelet/config/http.go.
package http
