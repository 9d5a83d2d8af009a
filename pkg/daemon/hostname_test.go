package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// A machine that never gets a name delays the start by a minute. A daemon that is stopped does not wait.
func TestAwaitName(t *testing.T) {
	before := hostname
	defer func() { hostname = before }()
	for name, test := range map[string]struct {
		names []string // one for each second
		fails bool
		stop  time.Duration
		want  time.Duration
		named bool
	}{
		"a name":        {[]string{"node1"}, false, 0, 0, true},
		"never":         {[]string{"localhost"}, false, 0, nameTimeout, false},
		"late":          {[]string{"(none)", "localhost", "LOCALHOST.localdomain", "localhost-1"}, false, 0, 3 * time.Second, true},
		"stopped":       {[]string{"localhost"}, false, 2 * time.Second, 2 * time.Second, false},
		"can't be read": {[]string{""}, true, 0, 0, true}, // New says why
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				hostname = func() (string, error) {
					if test.fails {
						return "", errors.New("no host name")
					}
					return test.names[min(int(time.Since(began)/time.Second), len(test.names)-1)], nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.stop > 0 {
					time.AfterFunc(test.stop, cancel)
				}
				c := new(Config)
				if c.Unnamed() {
					_ = c.awaitName(ctx) // it ends
				}
				if took := time.Since(began); took.Round(namePeriod) != test.want || c.Unnamed() == test.named {
					t.Errorf("it took %v, unnamed: %t", took, c.Unnamed())
				}
				if c.HostnameOverride = "node1"; c.Unnamed() {
					t.Error("a configured name is not enough")
				}
			})
		})
	}
}

// What no name mends is an error at once.
func TestAwaitNameWithAFault(t *testing.T) {
	before := hostname
	defer func() { hostname = before }()
	hostname = func() (string, error) { return "localhost", nil }
	dir := testutil.ShortDir(t)
	testutil.WriteFile(t, filepath.Join(dir, "file"), "")
	for name, socket := range map[string]string{"a faulty configuration": "", "an address that can't be used": filepath.Join(dir, "file")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var c Config
				c.Socket, c.StaticPodPath = &socket, dir
				if err := AwaitName(t.Context(), c); err == nil || time.Since(began) > 0 {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}
