package syncloop

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// slow is a handler whose housekeeping takes some time.
type slow struct {
	*recorder
	takes time.Duration
}

func (s *slow) HandlePodOrphans(context.Context, []*v1.Pod) {
	time.Sleep(s.takes) //nolint:forbidigo // virtual time
}

func TestSlowHousekeepingIsLogged(t *testing.T) {
	for _, takes := range []time.Duration{housekeepingWarningDuration, housekeepingWarningDuration + time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
			handler := &slow{recorder: newRecorder(), takes: takes}
			runtime := &events{events: make(chan *pleg.PodLifecycleEvent)}
			runtime.has("orphan")
			loop := New(Options{
				Handler: handler, PLEG: runtime,
				SourcesReady: handler,
			})
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
			done := make(chan error)
			go func() { done <- loop.Run(ctx, nil) }()
			pass(2*housekeepingPeriod - time.Millisecond)
			cancel()
			<-done
			said := strings.Contains(log.String(), "Housekeeping took longer than expected")
			if want := takes > housekeepingWarningDuration; said != want {
				t.Errorf("housekeeping of %v: said %v, want %v: %s", takes, said, want, log.String())
			}
		})
	}
}
