// Package cli has what the client commands share: the flags that say how to connect to a daemon,
// arguments, output, colors and tables.
//
// Each client command is a package below this one. Its NewCommand returns the command. Its Options
// are the flags. Their Run takes a client and the streams to read and write, so that a test of the
// command needs no process:
//
//	opts := status.Options{Subject: "web"}
//	err := opts.Run(ctx, client.New(socket), cli.IOStreams{Out: &out, ErrOut: &notes})
package cli
