package cli

import (
	"slices"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// The daemon takes operations in any case, and a command that compares them must too.
func TestOperationsInAnyCase(t *testing.T) {
	s := Selection{ops: "add, Remove"}
	if ops := s.Stream().Ops; !slices.Equal(ops, []v1alpha1.Op{v1alpha1.OpAdd, v1alpha1.OpRemove}) {
		t.Errorf("got %q", ops)
	}
}
