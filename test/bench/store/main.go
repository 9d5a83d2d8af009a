// The command store measures what it costs to store one update of a pod of 4 kB, one at a
// time, with the journal's log and with databases that could do the same: keep the present
// state and the last thousand updates.
//
// Each runs in a process of its own. It prints the time of an update (median and 99th
// percentile), the bytes that an update writes, and by how much the process grew.
//
// It is a module of its own and not part of "make test". To run it: go run . -n 20000
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	pods = 110
	// history is how many updates are kept.
	history = 1000
)

// database stores updates.
type database interface {
	// put returns when a kill of the process would not lose the update.
	put(revision int64, pod *v1.Pod) error
	// last returns the newest revision that it has.
	last() (int64, error)
	close() error
}

// databases are the compared databases.
var databases = []struct {
	name string
	open func(dir string) (database, error)
	// share divides the number of updates: some databases are slow.
	share int
}{
	{"own log", openLog, 1},
	{"SQLite in WAL mode, modernc", openSQLite("sqlite"), 1},
	{"SQLite in WAL mode, mattn", openSQLite("sqlite3"), 1},
	{"bbolt with fsync", openBolt(false), 10},
	{"bbolt without fsync", openBolt(true), 1},
	{"pebble with fsync", openPebble(true), 10},
	{"pebble without fsync", openPebble(false), 1},
}

func main() {
	n := flag.Int("n", 20000, "number of updates")
	every := flag.Duration("every", 0, "time between two updates")
	kills := flag.Int("kills", 0, "instead of measuring, kill each that many times while it writes, and count lost updates")
	write := flag.Bool("write", false, "with -one: write, and print each revision, until killed")
	one := flag.Int("one", -1, "only this database, in this process")
	dir := flag.String("dir", "", "directory on the disk to measure (default: a temporary one)")
	flag.Parse()
	if *write {
		log.Fatal(writeOn(*one, *dir))
	}
	if *kills > 0 {
		if err := killAll(*kills, *dir); err != nil {
			log.Fatal(err)
		}
		return
	}
	if *one >= 0 {
		if err := measure(*one, *n, *every, *dir); err != nil {
			log.Fatal(err)
		}
		return
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("load before: %sa pod has %d bytes\n| | p50 µs | p99 µs | written kB | resident MB |\n|---|---|---|---|---|\n", load, pod(rand.New(rand.NewPCG(1, 1)), 0).Size())
	for i, d := range databases {
		tmp, err := os.MkdirTemp(*dir, "store")
		if err != nil {
			log.Fatal(err)
		}
		cmd := exec.CommandContext(context.Background(), os.Args[0], "-one", strconv.Itoa(i), "-n", strconv.Itoa(*n/d.share), "-every", every.String(), "-dir", tmp)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err = cmd.Run()
		if err := os.RemoveAll(tmp); err != nil {
			log.Fatal(err)
		}
		if err != nil {
			log.Fatalf("%s: %v", d.name, err)
		}
	}
}

func measure(which, n int, every time.Duration, dir string) error {
	random := rand.New(rand.NewPCG(1, 1))
	// They are there before and after, as they are in the journal.
	all := make([]*v1.Pod, 10*pods)
	for i := range all {
		all[i] = pod(random, i%pods)
	}
	took := make([]time.Duration, n)
	debug.FreeOSMemory()
	resident, written := number("/proc/self/status", "VmRSS:"), number("/proc/self/io", "wchar:")
	d, err := databases[which].open(dir)
	if err != nil {
		return err
	}
	for i := range n {
		p := all[i%len(all)]
		if every > 0 {
			<-time.After(every)
		}
		begun := time.Now()
		if err := d.put(int64(i)+1, p); err != nil {
			return err
		}
		took[i] = time.Since(begun)
	}
	bytes := number("/proc/self/io", "wchar:") - written
	debug.FreeOSMemory()
	grown := number("/proc/self/status", "VmRSS:") - resident
	runtime.KeepAlive(all)
	if err := d.close(); err != nil {
		return err
	}
	slices.Sort(took)
	us := func(q int) float64 { return float64(took[n*q/100].Nanoseconds()) / 1000 }
	fmt.Printf("| %s | %.1f | %.1f | %.1f | %+.1f |\n", databases[which].name, us(50), us(99), float64(bytes)/float64(n)/1000, float64(grown)/1024)
	return nil
}

// pod returns a pod of about 4 kB as protobuf.
func pod(random *rand.Rand, n int) *v1.Pod {
	name := fmt.Sprintf("pod-%d", n)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)}}
	for c := range 3 {
		container := v1.Container{Name: fmt.Sprintf("container-%d", c), Image: "registry.example/some/image:v1.2.3"}
		for e := range 22 {
			container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", e), Value: fmt.Sprintf("%040x", random.Uint64())})
		}
		p.Spec.Containers = append(p.Spec.Containers, container)
	}
	return p
}

// number returns the number after the beginning of a line, in a file of /proc.
func number(file, line string) int64 {
	data, err := os.ReadFile(file)
	if err != nil {
		panic(err) // a file of the kernel
	}
	_, rest, _ := bytes.Cut(data, []byte(line))
	n, err := strconv.ParseInt(strings.Fields(string(rest))[0], 10, 64)
	if err != nil {
		panic(err) // a file of the kernel
	}
	return n
}

func key(revision int64) []byte {
	return binary.BigEndian.AppendUint64([]byte("log/"), uint64(revision))
}
