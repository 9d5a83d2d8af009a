package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// killAll kills each database while it writes, and prints how often updates were lost after put had
// returned.
func killAll(kills int, dir string) error {
	fmt.Printf("| | kills | updates lost at |\n|---|---|---|\n")
	for i, d := range databases {
		lost := 0
		for range kills {
			was, err := killOne(i, dir)
			if err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
			if was {
				lost++
			}
		}
		fmt.Printf("| %s | %d | %d |\n", d.name, kills, lost)
	}
	return nil
}

// killOne starts a process that writes, kills it, and tells whether something is missing.
func killOne(which int, dir string) (bool, error) {
	tmp, err := os.MkdirTemp(dir, "store")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	cmd := exec.CommandContext(context.Background(), os.Args[0], "-write", "-one", strconv.Itoa(which), "-dir", tmp)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	acknowledged := int64(0)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if acknowledged == 0 {
			time.AfterFunc(time.Duration(20+rand.IntN(200))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
		if acknowledged, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			return false, err
		}
	}
	_ = cmd.Wait() // it was killed
	d, err := databases[which].open(tmp)
	if err != nil {
		return false, err
	}
	last, err := d.last()
	if err != nil {
		return false, err
	}
	return last < acknowledged, d.close()
}

// writeOn writes until it is killed.
func writeOn(which int, dir string) error {
	d, err := databases[which].open(dir)
	if err != nil {
		return err
	}
	begin := int64(0)
	if l, ok := d.(*ownLog); ok {
		begin = l.begin
	}
	random := rand.New(rand.NewPCG(1, 1))
	p := pod(random, 1)
	for revision := int64(1); ; revision++ {
		if err := d.put(revision, p); err != nil {
			return err
		}
		if _, err := os.Stdout.WriteString(strconv.FormatInt(begin+revision, 10) + "\n"); err != nil {
			return err
		}
	}
}

func revisionOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[len("log/"):])) }
