package kubelet

import (
	"testing"

	"github.com/podconfigd/podconfigd/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
