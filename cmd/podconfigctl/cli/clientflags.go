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

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// ClientFlags are the flags of the commands that connect to a daemon. Those for TCP have the
// names that kubectl gives them.
type ClientFlags struct {
	flags  *pflag.FlagSet
	socket string
	config client.Config
}

// AddTo adds the flags to a command.
func (f *ClientFlags) AddTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.flags = flags
	flags.StringVar(&f.socket, "socket", client.DefaultSocket(),
		"Path of the daemon's unix socket. The environment variable "+client.SocketEnv+" sets the default.")
	flags.StringVarP(&f.config.Server, "server", "s", os.Getenv(client.ServerEnv),
		"Address of the daemon: https://HOST:PORT, http://HOST:PORT or unix:///PATH. If empty, uses --socket. The environment variable "+client.ServerEnv+" sets the default. It comes before "+client.SocketEnv+".")
	flags.StringVar(&f.config.CAFile, "certificate-authority", "", "Path to a file with the CA certificates that verify an https server. If empty, uses those of the system.")
	flags.StringVar(&f.config.CertFile, "client-certificate", "", "Path to a client certificate file for https. Requires --client-key.")
	flags.StringVar(&f.config.KeyFile, "client-key", "", "Path to the key file of --client-certificate.")
	flags.StringVar(&f.config.ServerName, "tls-server-name", "", "Name to expect in the certificate of an https server. If empty, uses the host of --server.")
	flags.BoolVar(&f.config.Insecure, "insecure-skip-tls-verify", false, "Do not verify the certificate of an https server. Anyone on the way to the server can then read the credentials, and answer instead of it.")
	flags.StringVar(&f.config.BearerToken, "token", "", "Bearer token for an https server. Other users of the machine can see it in the list of processes: prefer --token-file.")
	flags.StringVar(&f.config.BearerTokenFile, "token-file", "", "Path to a file with a bearer token for an https server. Read again for each request.")
	command.SetSection(flags, "Connection", "socket", "server", "certificate-authority", "client-certificate", "client-key", "tls-server-name",
		"insecure-skip-tls-verify", "token", "token-file")
	for _, name := range []string{"server", "token", "tls-server-name"} {
		command.CompleteFlag(cmd, name)
	}
}

// Client returns a client for the address. A flag comes before the environment.
func (f *ClientFlags) Client() (*client.Client, error) {
	config := f.config
	socketSet, serverSet := f.flags.Changed("socket"), f.flags.Changed("server")
	switch {
	case socketSet && serverSet:
		return nil, errors.New("--socket and --server are both set: leave out one of them")
	case config.BearerToken != "" && config.BearerTokenFile != "":
		return nil, errors.New("--token and --token-file are both set: leave out one of them")
	case config.Server != "" && !socketSet:
		return client.NewForConfig(config)
	case f.socket == "":
		return nil, errors.New("no address of podconfigd: set --socket or " + client.SocketEnv + ", or --server or " + client.ServerEnv)
	case strings.HasPrefix(f.socket, "unix://"):
		return nil, fmt.Errorf("socket %q: expected a path: leave out unix://, or use --server", f.socket)
	}
	if flag := f.onlyTLS(); flag != "" {
		return nil, errors.New(flag + " requires --server=https://HOST:PORT")
	}
	return client.New(f.socket), nil
}

// RunE returns the RunE of a command: take takes the arguments and checks the flags, and run runs the command with a client of the
// daemon.
func (f *ClientFlags) RunE(take func(cmd *cobra.Command, args []string) error, run func(context.Context, *client.Client, IOStreams) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := take(cmd, args); err != nil {
			return err
		}
		c, err := f.Client()
		if err != nil {
			return err
		}
		defer c.CloseIdleConnections()
		return run(cmd.Context(), c, Streams(cmd))
	}
}

// Local reports whether the address is a unix socket.
func (f *ClientFlags) Local() bool {
	return f.flags.Changed("socket") || f.config.Server == "" || strings.HasPrefix(f.config.Server, "unix://")
}

// Address returns the address of the daemon.
func (f *ClientFlags) Address() string {
	if f.flags.Changed("socket") || f.config.Server == "" {
		return f.socket
	}
	return f.config.Server
}

// onlyTLS returns the name of a flag that is set and requires https.
func (f *ClientFlags) onlyTLS() string {
	c := &f.config
	name := func(set bool, flag string) string {
		if set {
			return flag
		}
		return ""
	}
	return cmp.Or(
		name(c.BearerToken != "", "--token"), name(c.BearerTokenFile != "", "--token-file"),
		name(c.CAFile != "", "--certificate-authority"), name(c.CertFile != "", "--client-certificate"),
		name(c.KeyFile != "", "--client-key"), name(c.ServerName != "", "--tls-server-name"),
		name(c.Insecure, "--insecure-skip-tls-verify"),
	)
}

// parameter finds the name of a parameter that the daemon refuses.
var parameter = regexp.MustCompile(`parameter "(\w+)"`)

// AsFlags returns an error of the daemon with the names of the flags in place of those of the parameters. A daemon of another version
// does not know all parameters. It then lists those that it knows, and not all of these are flags.
func AsFlags(err error) error {
	refused, ok := errors.AsType[*client.RefusedError](err)
	if !ok || refused.Code != http.StatusBadRequest || strings.HasPrefix(refused.Message, "unknown parameter") {
		return err
	}
	text := parameter.ReplaceAllString(err.Error(), "--$1")
	return errors.New(strings.NewReplacer("--fieldSelector", "--field-selector", "--labelSelector", "--selector").Replace(text))
}

// NoteDisconnects returns an OnDisconnect that prints why a stream broke, once for each reason, and not at each attempt.
func NoteDisconnects(notes io.Writer) func(err error, retryIn time.Duration) {
	var last string
	return func(err error, _ time.Duration) {
		if err.Error() != last {
			last = err.Error()
			fmt.Fprintf(notes, "podconfigctl: %v; reconnecting\n", err)
		}
	}
}
