package store

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) {
	testutil.Parallel(8) // those that are parallel mostly wait
	goleak.VerifyTestMain(m)
}
