package resident

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestKeep(t *testing.T) {
	const mebibyte = 1 << 20
	tests := []struct {
		name string
		// busy is how long the process uses half a processor.
		busy time.Duration
		// heap has the MiB of the heap after the start, and each minute after.
		heap []uint64
		// frees are the times at which memory was given back.
		frees []time.Duration
	}{
		{"at the end of the start", 0, []uint64{10}, []time.Duration{4 * time.Second}},
		{"after a long start", 20 * time.Second, []uint64{10}, []time.Duration{21 * time.Second}},
		{"a heap that grows", 0, []uint64{8, 8, 9, 9}, []time.Duration{4 * time.Second, 124 * time.Second}},
		{"a large heap that grows", 0, []uint64{100, 110, 112, 113}, []time.Duration{4 * time.Second, 184 * time.Second}},
		{"a heap that shrinks", 0, []uint64{10, 5, 11, 11}, []time.Duration{4 * time.Second}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var frees, unmaps []time.Duration
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
				defer cancel()
				k := keeper{
					used: func() time.Duration { return min(time.Since(began), test.busy) / 2 },
					held: func() uint64 {
						n := int((time.Since(began) - frees[0]) / time.Minute)
						return test.heap[min(n, len(test.heap)-1)] * mebibyte
					},
					free:  func() { frees = append(frees, time.Since(began)) },
					unmap: func() error { unmaps = append(unmaps, time.Since(began)); return errors.New("not permitted") },
				}
				k.run(ctx)
				if !slices.Equal(frees, test.frees) {
					t.Errorf("memory was given back at %v, want %v", frees, test.frees)
				}
				if !slices.Equal(unmaps, test.frees[:1]) {
					t.Errorf("the program was unmapped at %v, want %v", unmaps, test.frees[:1])
				}
			})
		})
	}
}

func TestKeepEndsDuringTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		(&keeper{}).run(ctx)
	})
}

func TestClean(t *testing.T) {
	const smaps = `00400000-01260000 r-xp 00000000 fe:00 1234      /usr/bin/podconfigd
Size:              14720 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me sd
01260000-02280000 r--p 00e60000 fe:00 1234      /usr/bin/podconfigd
Anonymous:             0 kB
Swap:                  0 kB
02280000-02290000 r--p 01e80000 fe:00 1234      /usr/bin/podconfigd
Anonymous:            64 kB
Swap:                  0 kB
02290000-02300000 rw-p 01e90000 fe:00 1234      /usr/bin/podconfigd
Anonymous:             0 kB
02300000-02310000 r--p 01ea0000 fe:00 1234      /usr/bin/podconfigd
Anonymous:             0 kB
Swap:                 64 kB
7f0000000000-7f0000010000 r-xp 00000000 fe:00 99        /usr/lib/libc.so
Anonymous:             0 kB
Swap:                  0 kB
7f0000020000-7f0000030000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	got, err := clean(strings.NewReader(smaps), "/usr/bin/podconfigd")
	if err != nil {
		t.Fatal(err)
	}
	if want := []mapping{{0x400000, 0x1260000}, {0x1260000, 0x2280000}}; !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if _, err := clean(strings.NewReader("none r-xp\n"), ""); err == nil {
		t.Error("a broken line is no error")
	}
}

// TestUnmap maps all of this test's program, which then has fewer pages after they were unmapped, and still runs.
func TestUnmap(t *testing.T) {
	mappings, err := ofProgram()
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, m := range mappings {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_POPULATE_READ); errno != 0 {
			t.Skip("this kernel cannot map all pages: ", errno)
		}
		pages += int(m.end-m.start) / os.Getpagesize()
	}
	if err := unmap(); err != nil {
		t.Fatal(err)
	}
	if mapped := filePages(t); mapped >= pages {
		t.Errorf("%d pages are mapped, %d before", mapped, pages)
	}
}

// filePages returns the number of pages of files that are mapped.
func filePages(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		t.Skip("this kernel does not count them")
	}
	kB, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kB << 10 / os.Getpagesize()
}
