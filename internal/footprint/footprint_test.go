//go:build linux

package footprint

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestDroppable(t *testing.T) {
	const maps = `00400000-01285000 r-xp 00000000 fe:00 9995058   /usr/bin/podconfigd
Size:              14868 kB
Rss:               12352 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
01285000-02298000 r--p 00e85000 fe:00 9995058   /usr/bin/podconfigd
Anonymous:             4 kB
02298000-023af000 rw-p 01e98000 fe:00 9995058   /usr/bin/podconfigd
Anonymous:             0 kB
023af000-0461e000 r--p 00000000 00:00 0 
Anonymous:             0 kB
7f0000000000-7f0000002000 r--p 00000000 fe:00 9995058   /usr/bin/podconfigd
Anonymous:             0 kB
7f0000004000-7f0000006000 r--p 00000000 fe:00 9995059   /lib/usr/bin/podconfigd
Anonymous:             0 kB
`
	got, err := droppable(strings.NewReader(maps), "/usr/bin/podconfigd")
	if err != nil {
		t.Fatal(err)
	}
	if want := []area{{0x400000, 0x1285000}, {0x7f0000000000, 0x7f0000002000}}; !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// The program goes on without its pages, and with less memory.
func TestDropProgram(t *testing.T) {
	before := filePages(t)
	if err := dropProgram(); err != nil {
		t.Fatal(err)
	}
	if after := filePages(t); after >= before {
		t.Errorf("%d pages of files, before %d", after, before)
	}
}

// filePages returns how many pages of files this process has mapped in memory: proc(5), statm.
func filePages(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[2])
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
