// Package syncloop is the loop in which everything that may change what runs on
// the node comes together, as it does in the kubelet: updates of the config, events
// of the runtime, and two tickers, one for pods that are due to be looked at again
// and one for housekeeping.
//
// One goroutine takes one of these at a time and hands it to a [SyncHandler], so a
// handler is never called twice at once and sees the updates in their order. A
// handler must not wait for anything that can be slow: while it does, nothing else
// moves.
//
// Housekeeping is done only when every source has been seen, for until then a pod
// that no source wants may be one whose source has not spoken yet.
package syncloop
