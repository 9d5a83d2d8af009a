package resident

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// mapping is a part of the program's file that is mapped: the addresses from start to end.
type mapping struct{ start, end uintptr }

// unmap unmaps the pages of the program's file. The kernel keeps them in its cache. When the program uses one
// again, the kernel maps it and its neighbors, without reading the file.
func unmap() error {
	mappings, err := ofProgram()
	if err != nil {
		return err
	}
	for _, m := range mappings {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise: %w", errno)
		}
	}
	return nil
}

// ofProgram returns the mappings of the program's file that can be unmapped.
func ofProgram() ([]mapping, error) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, err
	}
	defer smaps.Close()
	return clean(smaps, program)
}

// clean returns the mappings that still have the content of the file: they can't be written, and none of their
// pages was written before. A loader writes the pages that it relocates. A page that was written is anonymous,
// or swapped out.
func clean(smaps io.Reader, file string) ([]mapping, error) {
	var found []mapping
	var m mapping
	candidate := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		switch fields := strings.Fields(lines.Text()); {
		case len(fields) == 0:
		case !strings.HasSuffix(fields[0], ":"): // the first line of a mapping: address permissions offset device inode path
			candidate = len(fields) == 6 && fields[5] == file && !strings.Contains(fields[1], "w")
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end); err != nil {
				return nil, fmt.Errorf("reading a mapping: %w", err)
			}
		case len(fields) < 2:
		case fields[0] == "Anonymous:":
			candidate = candidate && fields[1] == "0"
		case fields[0] == "Swap:" && candidate && fields[1] == "0": // it comes after Anonymous
			found = append(found, m)
		}
	}
	return found, lines.Err()
}
