// Command line-subscriber is a subscriber in its own process, like an agent. It writes to a
// file when it read each UPDATE: the number of pods, the version of the first, and the
// time. Usage: line-subscriber SOCKET FILE
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: line-subscriber SOCKET FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "line-subscriber:", err)
		os.Exit(1)
	}
}

// run ends with the stream.
func run(socket, path string) error {
	notes, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer notes.Close()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://podconfigd/v1alpha1/updates", http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the daemon said %s", response.Status)
	}
	lines := bufio.NewReaderSize(response.Body, peer.LongestLine)
	for {
		line, err := lines.ReadSlice('\n')
		at := peer.Now()
		if err != nil {
			return fmt.Errorf("reading the stream: %w", err)
		}
		event := peer.Glance(line)
		switch {
		case event.Op == "UPDATE":
			_, err = fmt.Fprintf(notes, "%d %s %d\n", event.Pods, event.Version, at)
		case event.Ready && bytes.Contains(line, []byte(`"initialSyncComplete":true`)):
			_, err = fmt.Fprintln(notes, "0 0 0") // the current state is complete
		}
		if err != nil {
			return err
		}
	}
}
