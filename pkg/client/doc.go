// Package client reads podconfigd's stream of updates.
//
//	c := client.New(client.DefaultSocket())
//	for update, err := range c.Updates(ctx, client.Options{}) {
//		if err != nil {
//			return err
//		}
//		// update.Op, update.Pods
//	}
//
// The loop above goes on over restarts and lost connections: the client resumes
// where it was, by instance and revision, and waits between attempts with backoff
// and jitter, also where others have taken all places meanwhile. Where it can't
// resume, an update with Reset comes: forget every pod, the present state follows.
// An update that the daemon split for its size is handed on whole.
//
// Those who only want the present pods run a [Cache], which is kept up to date from
// the stream and can be listed, asked for a name, and indexed.
package client
