// Package conn accepts the connections of the server. It detects their protocol and their client, and
// limits what a client may have.
//
//	limits := conn.NewLimiter(conn.Limits{Subscribers: 100}, nil)
//	return conn.NewSplitter(l, &limits.Sockets).Run(ctx, plain, h2, refusedPlain, refusedH2)
//
// A [Splitter] accepts the connections of a listener, and passes each to one of four servers: by
// protocol, and by whether the limits allow it. [From] returns the connection of a request. A [Limiter]
// counts what each client uses.
package conn
