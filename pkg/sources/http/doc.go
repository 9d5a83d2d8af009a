// Package http is the source of the pods of a manifest URL, which serves a Pod or a
// PodList, as YAML or JSON.
//
// # Requests
//
// The source sends a request at the start and every period. Each is delayed by up to a tenth of the
// period, so that many nodes do not send theirs at once. If the server sends an ETag, or at least a
// Last-Modified, requests are conditional. An answer without a change is not decoded, nor an answer
// with the same body as before. "Not modified" counts only if it has the same ETag or time, because
// an older file may replace a newer one. Every eleventh request has no condition, because a file
// may be replaced by another of the same time, and a cache may answer without asking the server.
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
// the same. If each item of the last answer gave a pod without a warning, its ETag or time
// is restored too. Then the first request is conditional, and "not modified" means that the
// restored pods are the set. The ETag or time counts only for the same URL, headers,
// version of podconfigd and pods.
//
// # Secrets
//
// The configured headers and the bearer token are sent only to the host of the URL, not to the
// target of a redirect to another host. Logs, errors and the status contain neither these secrets
// nor the user and the query of the URL. What is stored for a restart has only digests.
//
// kubelet: pkg/kubelet/config/http.go.
package http
