package cli

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// A completion has the pods also if the machine stands still for longer than the daemon may take.
func TestACompletionAfterAStandstill(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	stand := testutil.StandStill(t, "")
	server := &http.Server{ReadHeaderTimeout: testutil.Patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stand()
		<-time.After(completionTimeout / 10)
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"web","namespace":"default"}}]}`)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	defer func() { _ = server.Close(); <-served }()
	cmd, flags := new(cobra.Command), new(ClientFlags)
	flags.AddTo(cmd)
	if err := cmd.ParseFlags([]string{"--socket", socket}); err != nil {
		t.Fatal(err)
	}
	if got := flags.Pods(cmd, ""); !slices.Equal(got, []string{"web"}) {
		t.Errorf("the pods are %q", got)
	}
}
