// Command image is the one program in the image that containers of tests run:
//
//	image pause         waits for a signal, as the container of a sandbox does
//	image exit N        exits with N at once
//	image sleep D [N]   waits for D (as in 1s), then exits with N, 0 if left out
//	image fill FILE N   writes N bytes to a file, waits for a signal, and fails: an evicted pod must not succeed
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		args = []string{"pause"}
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	switch {
	case args[0] == "pause":
		<-end
		return 0
	case args[0] == "exit" && len(args) == 2:
		return number(args[1])
	case args[0] == "fill" && len(args) == 3:
		if err := os.WriteFile(args[1], make([]byte, number(args[2])), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		<-end
		return 1
	case args[0] == "sleep" && len(args) >= 2:
		d, err := time.ParseDuration(args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		select {
		case <-end:
			return 0
		case <-time.After(d):
		}
		if len(args) == 3 {
			return number(args[2])
		}
		return 0
	}
	fmt.Fprintln(os.Stderr, "image: unknown arguments:", args)
	return 2
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return n
}
