// Package socket makes the unix sockets of the server, and parses the addresses that it listens on.
//
//	l, err := socket.Listen(ctx, socket.ListenOptions{Path: "/run/podconfigd/podconfigd.sock", Mode: 0o660})
//	if err != nil {
//		return err
//	}
//	defer l.Close() // removes the file
//
// [Listen] creates the socket file with its mode and group under another name, and then renames it.
// So no client finds a half-made socket. Listen replaces the file of a daemon that has ended. If
// another process serves the path, or the file is not a socket, Listen returns an error and does not
// touch the file. Closing the listener removes the file. [Adopt] takes a socket of the service manager.
// [Keep] creates the file again if it is removed.
package socket
