//go:build linux

// Package footprint keeps the memory of the daemon small.
package footprint

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// startPercent is the growth of the heap between two collections during the start, unless the environment has GOGC.
// The start makes much garbage. Later, 50 would cost 8 to 10 % of the processor time of a delivery.
const startPercent = 50

// dropAfter are the waits before Run drops what the start left: after the first sets, and after those of slow
// sources.
var dropAfter = []time.Duration{3 * time.Second, time.Minute}

// Run drops what the start of the program left in memory. It returns after that, or when the context is done.
func Run(ctx context.Context) error {
	restore := collectOften()
	defer restore()
	for _, wait := range dropAfter {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		restore()
		debug.FreeOSMemory()
		if err := dropProgram(); err != nil {
			return err
		}
	}
	return nil
}

// collectOften sets startPercent until restore is called.
func collectOften() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(startPercent)
	return sync.OnceFunc(func() { debug.SetGCPercent(before) })
}

// dropProgram unmaps the pages of the program's file. The start touches most of them, for example to register types,
// and the kernel maps 16 at a time. Those that are used again are mapped again, from the page cache.
func dropProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("reading the memory map: %w", err)
	}
	defer maps.Close()
	areas, err := droppable(maps, program)
	if err != nil {
		return err
	}
	for _, a := range areas {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, a.from, a.to-a.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("dropping pages of %s: %w", program, errno)
		}
	}
	return nil
}

// area is a part of the address space.
type area struct{ from, to uintptr }

// droppable returns the areas in a file such as /proc/self/smaps of which the program's file has all pages.
// These are not writable, and have no pages of their own, as those where a debugger or a uprobe has written breakpoints.
func droppable(maps io.Reader, program string) (areas []area, err error) {
	var current area
	ours := false
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		line := lines.Text()
		var next area
		var access string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &next.from, &next.to, &access); n == 3 {
			current = next
			ours = strings.HasSuffix(line, " "+program) && strings.HasPrefix(access, "r-")
			continue
		}
		if fields := strings.Fields(line); ours && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" {
			areas = append(areas, current)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the memory map: %w", err)
	}
	return areas, nil
}
