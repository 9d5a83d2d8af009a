// Command testtimes prints where the processor time of "make test" goes: by package of this module,
// compiling and linking its test, and running it; and by other module, compiling it.
//
//	testtimes run FILE PROGRAM [ARGUMENT...]   runs a test program for "go test -exec", and appends its times to FILE
//	testtimes report FOLDER                    prints the tables of FOLDER: FILE is FOLDER/runs, and
//	                                           FOLDER/*.json are written by "go test -debug-actiongraph"
//
// Times are user and system time in seconds. That of a test includes the programs that it started
// and waited for.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) >= 4 && os.Args[1] == "run" {
		os.Exit(run(os.Args[2], os.Args[3], os.Args[4:]))
	}
	if len(os.Args) == 3 && os.Args[1] == "report" {
		if err := report(os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "testtimes:", err)
			os.Exit(1)
		}
		return
	}
	fmt.Fprintln(os.Stderr, "usage: testtimes run FILE PROGRAM [ARGUMENT...] | testtimes report FOLDER")
	os.Exit(2)
}
