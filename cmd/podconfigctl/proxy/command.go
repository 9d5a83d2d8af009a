// Package proxy has the command proxy, which serves the daemon on a loopback port.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/command"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// Options are the flags of proxy.
type Options struct {
	address       string
	port          int
	kubeconfigOut string
}

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var flags cli.ClientFlags
	var opts Options
	cmd := &cobra.Command{
		Use:        "proxy",
		SuggestFor: []string{"page", "ui"},
		Short:      "Serve the daemon on a loopback port, for a browser, kubectl and curl",
		Long: `Serve the daemon on a loopback port, for a browser, kubectl and curl, until the command is
stopped.

A browser gets a page that shows the node, live. The command prints its address.

The port speaks what the daemon speaks: the stream, the Kubernetes API, the kubelet's APIs
and gRPC. It only reads: all other requests are refused, for example resync and release, and
so are targets that are no plain path. It passes no credentials of clients.

Every user and every program of this machine can use the port while the command runs, with
the permissions of the user who runs it. The mode of the socket does not protect the port.
Requests of other web pages are refused: the Host of a request must be a loopback address or
localhost.

The command prints a kubeconfig for the port. With --kubeconfig-out, it writes it to a file.`,
		Example: `  # Serve the daemon of this machine, and print what to run in another terminal
  podconfigctl proxy

  # Serve a daemon of another machine, and write a kubeconfig
  podconfigctl proxy --server https://node1:10250 --token-file token --kubeconfig-out node1.kubeconfig

  # Use it
  kubectl --kubeconfig node1.kubeconfig get pods -A -w`,
		Args: command.NoArgs,
		RunE: flags.RunE(func(*cobra.Command, []string) error { return opts.check() }, opts.Run),
	}
	flags.AddTo(cmd)
	cmd.Flags().StringVar(&opts.address, "address", "127.0.0.1", "Loopback IP address to serve on.")
	cmd.Flags().IntVarP(&opts.port, "port", "p", 8001, "Port to serve on. 0 to 65535. 0 is any free port.")
	cmd.Flags().StringVar(&opts.kubeconfigOut, "kubeconfig-out", "", "Path to a file for the kubeconfig. A file that this command has not written is not replaced.")
	return cmd
}

func (o *Options) check() error {
	if inner, ok := strings.CutPrefix(o.address, "["); ok {
		o.address = strings.TrimSuffix(inner, "]")
	}
	if ip, err := netip.ParseAddr(o.address); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("--address: %q is not a loopback address: expected 127.0.0.1 or ::1; for other machines, see --listen=https://ADDRESS:PORT of podconfigd", o.address)
	}
	if o.port < 0 || o.port > 65535 {
		return fmt.Errorf("--port: %d is not a port: expected 0 to 65535", o.port)
	}
	return nil
}

// Run serves the daemon until the context is done.
func (o *Options) Run(ctx context.Context, c *client.Client, streams cli.IOStreams) error {
	if err := reach(ctx, c); err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(o.address, strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("serving on port %d: %w: choose another port with --port", o.port, err)
	}
	address := l.Addr().String()
	if o.kubeconfigOut != "" {
		err = WriteKubeconfig(o.kubeconfigOut, address)
	}
	if err == nil {
		err = o.explain(streams.Out, address)
	}
	if err != nil {
		_ = l.Close() // nothing was accepted
		return err
	}
	return Serve(ctx, l, c)
}

// reach returns an error if the daemon can't be reached, or does not accept the credentials.
// What the user may do there is known only at each request.
func reach(ctx context.Context, c *client.Client) error {
	err := c.Ping(ctx)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && refused.Code != http.StatusUnauthorized {
		return nil
	}
	return err
}

// explain prints the address, that of the page, and commands that use it.
func (o *Options) explain(out io.Writer, address string) error {
	text := fmt.Sprintf("Starting to serve on %[1]s\n\nIn a browser, a page that shows the node:\n\nhttp://%[1]s/\n\nIn another terminal:\n\n", address)
	kubeconfig := o.kubeconfigOut
	if kubeconfig == "" {
		kubeconfig = "podconfigd.kubeconfig"
		text += fmt.Sprintf("cat > %s <<'END'\n%sEND\n", kubeconfig, Kubeconfig(address))
	}
	text += fmt.Sprintf("kubectl --kubeconfig %s get pods -A -w\n\ncurl -N http://%s/v1alpha1/updates\n", printable.ShellWord(kubeconfig), address)
	_, err := io.WriteString(out, text)
	return err
}

// mark is the first line of a kubeconfig of WriteKubeconfig. A file that begins with it can be replaced.
const mark = "# Written by podconfigctl proxy.\n"

// Kubeconfig returns a kubeconfig for the address of a proxy.
func Kubeconfig(address string) []byte {
	return fmt.Appendf(nil, mark+`apiVersion: v1
kind: Config
clusters:
- name: podconfigd
  cluster:
    server: http://%s
    # Without this line, the client for Node.js refuses plain HTTP.
    insecure-skip-tls-verify: true
contexts:
- name: podconfigd
  context:
    cluster: podconfigd
    user: ""
current-context: podconfigd
`, address)
}

// WriteKubeconfig writes a kubeconfig. It replaces only a regular file that it has written.
func WriteKubeconfig(path, address string) error {
	if err := writeKubeconfig(path, Kubeconfig(address)); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

func writeKubeconfig(path string, data []byte) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if file, err = openOurs(path); err == nil {
			err = file.Truncate(0)
		}
	}
	if file == nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err != nil {
		return err
	}
	_, err = file.WriteAt(data, 0)
	return err
}

// openOurs opens a file that WriteKubeconfig has written.
func openOurs(path string) (*os.File, error) {
	foreign := fmt.Errorf("%s exists, and podconfigctl proxy has not written it: choose another file", path)
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, foreign
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	start := make([]byte, len(mark))
	now, err := file.Stat()
	if err == nil && os.SameFile(before, now) {
		_, err = io.ReadFull(file, start)
	}
	if err != nil || string(start) != mark {
		_ = file.Close() // it was only read
		return nil, foreign
	}
	return file, nil
}
