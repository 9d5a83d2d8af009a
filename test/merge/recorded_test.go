package merge

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // the merger logs every duplicate
	goleak.VerifyTestMain(m)
}

func TestMergeIsTheRecorded(t *testing.T) {
	recording, err := ReadRecording("testdata/kubelet-1.34.4.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	if len(recording.Sequences) < 1000 {
		t.Errorf("only %d sequences are recorded", len(recording.Sequences))
	}
	for i, s := range recording.Sequences {
		if i%testutil.Stride(10) != 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			d := Start(ctx)
			defer d.Wait()
			defer cancel()
			synctest.Wait()
			replay(t, recording, d, i, s)
		})
	}
}

func replay(t *testing.T, recording *Recording, d *Podconfigd, number int, s Sequence) {
	t.Helper()
	for i, step := range s.Steps {
		updates, err := d.Merge(step)
		if err != nil {
			t.Fatal(err)
		}
		for j, mode := range Modes {
			if got, want := recording.Record(updates[j]), s.Updates[i][j]; !reflect.DeepEqual(got, want) {
				t.Errorf("sequence %d, set %d, %s: got\n%s, the kubelet said\n%s, steps %v",
					number, i, mode, recording.Show(got), recording.Show(want), s.Steps)
				return
			}
		}
	}
	if err := d.Unwritten(); err != nil {
		t.Error(err)
	}
}
