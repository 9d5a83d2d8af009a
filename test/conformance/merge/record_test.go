package merge

import (
	"context"
	"flag"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/podconfigd/podconfigd/test/merge"
)

const recordingPath = "../../merge/testdata/kubelet-1.34.4.json.gz"

var doRecord = flag.Bool("record", false, "record the kubelet's results of new sequences")

// The recording has what the kubelet's code says.
func TestRecording(t *testing.T) {
	recording := &merge.Recording{Kubelet: "v1.34.4"}
	if *doRecord {
		sequences := rapid.Custom(merge.Draw)
		for seed := range 1500 {
			recording.Sequences = append(recording.Sequences, merge.Sequence{Steps: sequences.Example(seed)})
		}
	} else {
		var err error
		if recording, err = merge.ReadRecording(recordingPath); err != nil {
			t.Fatal(err)
		}
	}
	for i := range recording.Sequences {
		s := &recording.Sequences[i]
		updates := kubeletUpdates(t, recording, s.Steps)
		if *doRecord {
			s.Updates = updates
		} else if !reflect.DeepEqual(updates, s.Updates) {
			t.Fatalf("sequence %d: the kubelet says %v, the recording %v; record again with -record", i, updates, s.Updates)
		}
	}
	if *doRecord {
		if err := recording.Write(recordingPath); err != nil {
			t.Fatal(err)
		}
	}
}

// kubeletUpdates returns the updates of each set in each mode.
func kubeletUpdates(t *testing.T, recording *merge.Recording, steps []merge.Step) (updates [][][]merge.Recorded) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
		defer cancel()
		var kubelets []*kubelet
		for _, mode := range modes {
			kubelets = append(kubelets, newKubelet(ctx, mode))
		}
		defer func() {
			for _, k := range kubelets {
				k.close()
			}
		}()
		for _, s := range steps {
			var inModes [][]merge.Recorded
			for _, k := range kubelets {
				got, err := k.merge(s)
				if err != nil {
					t.Fatal(err)
				}
				inModes = append(inModes, recording.Record(got))
			}
			updates = append(updates, inModes)
		}
	})
	return updates
}
