// Package syncloop is the sync loop of the kubelet.
//
//	loop := syncloop.New(syncloop.Options{Handler: handler, SourcesReady: handler})
//	err := loop.Run(ctx, podConfig.Updates())
//
// It has four inputs: the updates of the
// config, the events of the runtime, a ticker for pods that are due for a sync, and a
// ticker for housekeeping.
//
// One goroutine takes one input at a time and calls a [SyncHandler]. So the calls of a
// handler never overlap, and the handler gets the updates in order. A handler must not
// block, because the loop waits for it.
//
// Housekeeping starts when every source has been seen. Before that, a pod that is in no
// source may belong to a source that has not delivered its first set.
package syncloop
