package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// execution is a line of FILE.
type execution struct {
	Folder    string
	Processor float64 // seconds
	Elapsed   float64 // seconds
}

// run runs a program, appends its times to a file, and returns its exit status.
func run(file, program string, args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM)
	cmd := exec.CommandContext(context.Background(), program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "testtimes:", err)
		return 1
	}
	// The go command sends SIGQUIT to a test program that takes too long.
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	if err := record(file, cmd.ProcessState, time.Since(begin)); err != nil {
		fmt.Fprintln(os.Stderr, "testtimes: recording the times of", program+":", err)
		return 1
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	fmt.Fprintln(os.Stderr, "testtimes:", err) // a signal
	return 1
}

func record(file string, state *os.ProcessState, elapsed time.Duration) error {
	folder, err := os.Getwd() // the go command runs a test in the folder of its package
	if err != nil {
		return err
	}
	line, err := json.Marshal(execution{folder, (state.UserTime() + state.SystemTime()).Seconds(), elapsed.Seconds()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
