package soak

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// usage is what a daemon uses over time.
type usage struct {
	t      *testing.T
	daemon *daemon
	state  string
	// samples are in the order of quantities.
	samples [len(quantities)][]int
}

// quantities are what is sampled. The last quarter of the samples may exceed the second quarter, or a limit that a slow machine
// reaches later, by a share in percent and a number.
var quantities = [...]struct {
	name                string
	limit, share, extra int
}{
	{"resident KiB", 0, 10, 8 << 10},
	{"goroutines", 0, 0, 5},
	{"descriptors", 0, 0, 5},
	{"KiB of the state directory", 64 << 10, 0, 16 << 10}, // the default of --state-max-bytes; a segment and a snapshot
}

var (
	residentLine   = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)
	goroutinesLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)
)

func (u *usage) sample() {
	u.t.Helper()
	process := fmt.Sprint("/proc/", u.daemon.cmd.Process.Pid)
	status, err := os.ReadFile(filepath.Join(process, "status"))
	if err != nil {
		u.t.Fatal(err)
	}
	descriptors, err := os.ReadDir(filepath.Join(process, "fd"))
	if err != nil {
		u.t.Fatal(err)
	}
	bytes := 0
	segments, err := os.ReadDir(u.state)
	if err != nil {
		u.t.Fatal(err)
	}
	for _, s := range segments {
		if info, err := s.Info(); err == nil { // it may be deleted in the meantime
			bytes += int(info.Size())
		}
	}
	for i, n := range []int{u.number(residentLine, status), u.number(goroutinesLine, u.metrics()), len(descriptors), bytes >> 10} {
		u.samples[i] = append(u.samples[i], n)
	}
}

func (u *usage) metrics() []byte {
	u.t.Helper()
	s := &subscriber{cutter: &cutter{socket: u.daemon.socket}}
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	body, err := s.get(ctx, "/metrics")
	if body == nil {
		u.t.Fatalf("no metrics: %v", err)
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		u.t.Fatal(err)
	}
	return text
}

func (u *usage) number(line *regexp.Regexp, text []byte) int {
	u.t.Helper()
	match := line.FindSubmatch(text)
	if match == nil {
		u.t.Fatalf("no %s", line)
	}
	n, err := strconv.Atoi(string(match[1]))
	if err != nil {
		u.t.Fatal(err)
	}
	return n
}

// enough says whether each quarter has a sample.
func (u *usage) enough() bool { return len(u.samples[0]) >= 4 }

// judge compares the last quarter with the second, if the run was long enough for the journal to be full.
func (u *usage) judge() {
	u.t.Helper()
	for i, q := range quantities {
		s := u.samples[i]
		quarter := len(s) / 4
		var medians []int
		for k := range 4 {
			medians = append(medians, slices.Sorted(slices.Values(s[k*quarter : (k+1)*quarter]))[quarter/2])
		}
		text := fmt.Sprintf("%s, median of each quarter: %d, most: %d", q.name, medians, slices.Max(s))
		u.t.Log(text)
		if *press >= time.Minute && medians[3] > max(medians[1], q.limit)+medians[1]*q.share/100+q.extra {
			u.t.Errorf("it grows: %s", text)
		}
	}
}
