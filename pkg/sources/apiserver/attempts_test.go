package apiserver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

// A failure that lasts is logged, and so is its end, however often requests have failed and
// succeeded before.
func TestAFailureThatLastsIsLogged(t *testing.T) {
	for name, between := range map[string]func(*attempts){
		"in one series":          func(*attempts) {},
		"in a series of its own": (*attempts).calm,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last string
				log := func(_, args string) { last = args }
				ctx := klog.NewContext(context.Background(), funcr.New(log, funcr.Options{}))
				g := newAttempts(newBoard(nil), lastRetry)
				for range 100 {
					g.failed(ctx, errors.New("the watch broke"), 0)
					<-time.After(time.Second)
					g.succeeded(ctx, true)
					between(g)
					<-time.After(time.Second)
				}
				for range 120 {
					g.failed(ctx, errors.New("connection refused"), 0)
					<-time.After(time.Second)
				}
				if !strings.Contains(last, "connection refused") {
					t.Errorf("after two minutes of failures, the last line is %s", last)
				}
				for range 120 {
					g.succeeded(ctx, true)
					<-time.After(time.Second)
				}
				if !strings.Contains(last, "succeed again") {
					t.Errorf("after two minutes of success, the last line is %s", last)
				}
			})
		})
	}
}
