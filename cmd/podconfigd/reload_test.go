package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/podconfigd/podconfigd/internal/configfile"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestSignalWhileTheKubeletsFilesAreBad sends a signal while a drop-in of the kubelet has a fault. When it is as before, the
// configuration has no problem any more, however soon that is.
func TestSignalWhileTheKubeletsFilesAreBad(t *testing.T) {
	dir := testutil.ShortDir(t)
	dropin, own, socket := filepath.Join(dir, "10.conf"), filepath.Join(dir, "own"), filepath.Join(dir, "s")
	put := func(fields string) {
		testutil.WriteFile(t, dropin, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+fields+"\n")
	}
	const ownText = "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\n"
	testutil.WriteFile(t, own, ownText)
	good := "staticPodPath: " + dir + "/m"
	put(good)
	if err := os.Mkdir(filepath.Join(dir, "m"), 0o700); err != nil {
		t.Fatal(err)
	}
	opts, flags := configfile.NewOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
	opts.AddTo(flags)
	if err := flags.Parse([]string{"--socket=" + socket, "--hostname-override=n", "--config=" + own, "--kubelet-config-dir=" + dir}); err != nil {
		t.Fatal(err)
	}
	load := func() (*configfile.Configuration, error) { return opts.Load(flags) }
	loaded, err := load()
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(loaded.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	problems := func(want string) {
		t.Helper()
		status, err := client.New(socket).Status(t.Context())
		if got := strings.Join(status.Problems, "; "); err != nil || want == "" && got != "" || !strings.Contains(got, want) {
			t.Fatalf("%v, the problems are %q, want %q", err, got, want)
		}
	}
	testutil.Until(t, "the source is read", func() bool {
		status, err := client.New(socket).Status(t.Context())
		return err == nil && status.Ready
	})
	r := newReloader(nil, prometheus.NewRegistry(), loaded, load)
	put("staticPodPath: [")
	r.signaled(ctx, d)
	problems(dropin)
	put(good)
	r.follow(ctx, d)
	problems("")

	put(good + "\nsyncFrequency: -1s")
	r.signaled(ctx, d)
	problems("syncFrequency")
	r.follow(ctx, d) // it is refused already
	put(good + "\nsyncFrequency: 2m")
	r.follow(ctx, d)
	r.follow(ctx, d)
	problems("")

	// A fault of another file stays, whatever the kubelet's files are. Their changes are taken.
	testutil.WriteFile(t, own, "kind: [")
	put(good + "\nsyncFrequency: 3m")
	r.signaled(ctx, d)
	problems(own)
	r.follow(ctx, d)
	r.follow(ctx, d)
	if got := r.loaded.SyncFrequency.Duration.String(); got != "3m0s" {
		t.Errorf("the period is %v", got)
	}
	r.signaled(ctx, d)
	r.follow(ctx, d)
	problems(own)
}
