package main

import (
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

func TestADegradedSourceHoldsWhatWasSeen(t *testing.T) {
	source := v1alpha1.SourceStatus{
		Name: "http", Degraded: true, LastError: "refused", HTTP: &v1alpha1.HTTPStatus{URL: "http://h/"},
	}
	for seen, want := range map[bool]string{
		false: "http://h/; degraded, nothing was read yet: refused",
		true:  "http://h/; degraded, the last pods are held: refused",
	} {
		source.Seen = seen
		if row := sourceRow(&source); row[len(row)-1] != want {
			t.Errorf("seen %t: got %q, want %q", seen, row[len(row)-1], want)
		}
	}
}
