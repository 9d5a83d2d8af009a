package testutil

import (
	"flag"
	"fmt"
	"runtime"
)

// Parallel sets how many tests of this program run at a time, if the machine has fewer processors and the command line does not
// say. It is for tests that mostly wait for other processes. Call it in TestMain.
func Parallel(n int) {
	flag.Parse() //nolint:revive // TestMain calls it
	f := flag.Lookup("test.parallel")
	if processors := runtime.GOMAXPROCS(0); f.Value.String() == fmt.Sprint(processors) {
		_ = f.Value.Set(fmt.Sprint(max(n, processors))) // a number
	}
}
