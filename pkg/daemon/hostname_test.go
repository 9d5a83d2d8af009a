package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
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
					_ = c.AwaitName(ctx) // it ends
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
