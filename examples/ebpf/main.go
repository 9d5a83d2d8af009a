// Command ebpf keeps a BPF hash map in which programs in the kernel find the pod of a cgroup, such as the one that
// bpf_get_current_cgroup_id returns. In C, it is
//
//	struct pod { char namespace[64]; char name[256]; char container[64]; };
//	struct {
//		__uint(type, BPF_MAP_TYPE_HASH);
//		__uint(map_flags, BPF_F_NO_PREALLOC);
//		__uint(max_entries, 16384);
//		__type(key, __u64);
//		__type(value, struct pod);
//		__uint(pinning, LIBBPF_PIN_BY_NAME);
//	} pods SEC(".maps");
//
// It needs CAP_BPF and cgroup v2. If it can't make the map, it keeps one in memory, and says why.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// pod is a value of the map. Each text ends with a zero. A sandbox has no container.
type pod struct {
	Namespace [64]byte
	Name      [256]byte
	Container [64]byte
}

// table is the map.
type table interface {
	put(cgroup uint64, p *pod) error
	remove(cgroup uint64) error
	cgroups() ([]uint64, error)
}

type kernel struct{ m *ebpf.Map }

func (k kernel) put(cgroup uint64, p *pod) error { return k.m.Put(cgroup, p) }

func (k kernel) remove(cgroup uint64) error {
	if err := k.m.Delete(cgroup); !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

func (k kernel) cgroups() (all []uint64, err error) {
	var cgroup uint64
	entries := k.m.Iterate()
	for entries.Next(&cgroup, new(pod)) {
		all = append(all, cgroup)
	}
	return all, entries.Err()
}

// open makes the map. With a path, it is pinned there, also after the end. The next run continues with it.
func open(path string) (kernel, error) {
	_ = rlimit.RemoveMemlock()                                                                                              // Linux before 5.11 counts maps as locked memory; if this fails, the map says why
	spec := &ebpf.MapSpec{Name: "pods", Type: ebpf.Hash, KeySize: 8, ValueSize: 64 + 256 + 64, MaxEntries: 16384, Flags: 1} // BPF_F_NO_PREALLOC
	if path != "" {
		spec.Name, spec.Pinning = filepath.Base(path), ebpf.PinByName
	}
	m, err := ebpf.NewMapWithOptions(spec, ebpf.MapOptions{PinPath: filepath.Dir(path)})
	return kernel{m}, err
}

type memory map[uint64]*pod

func (m memory) put(cgroup uint64, p *pod) error { m[cgroup] = p; return nil }
func (m memory) remove(cgroup uint64) error      { delete(m, cgroup); return nil }
func (m memory) cgroups() ([]uint64, error)      { return slices.Collect(maps.Keys(m)), nil }

// pods keeps the table. present are the cgroups of the containers that the stream has.
type pods struct {
	table   table
	present map[uint64]bool
}

// take applies an update of the stream.
func (p *pods) take(u *v1alpha1.ContainerUpdate) error {
	switch c := u.Container; {
	case u.Reset:
		clear(p.present) // the present containers follow
	case u.InitialSyncComplete:
		return p.sweep()
	case c == nil || c.CgroupID == 0: // a bookmark, or a container without a known process
	case u.Op == v1alpha1.OpRemove:
		return p.remove(c.CgroupID)
	default:
		value := new(pod)
		copy(value.Namespace[:63], c.Pod.Namespace)
		copy(value.Name[:255], c.Pod.Name)
		copy(value.Container[:63], c.Name)
		fmt.Printf("+ %d %s/%s/%s\n", c.CgroupID, c.Pod.Namespace, c.Pod.Name, c.Name)
		p.present[c.CgroupID] = true
		return p.table.put(c.CgroupID, value)
	}
	return nil
}

func (p *pods) remove(cgroup uint64) error {
	fmt.Println("-", cgroup)
	delete(p.present, cgroup)
	return p.table.remove(cgroup)
}

// sweep removes the entries of containers that were removed while nobody watched.
func (p *pods) sweep() error {
	all, err := p.table.cgroups()
	for _, cgroup := range all {
		if !p.present[cgroup] {
			err = errors.Join(err, p.remove(cgroup))
		}
	}
	return err
}

func main() {
	pin := flag.String("pin", "", "path of the map in a BPF file system, for example /sys/fs/bpf/pods")
	flag.Parse()
	p := pods{memory{}, make(map[uint64]bool)}
	if k, err := open(*pin); err != nil {
		log.Print("the map is in memory: ", err)
	} else {
		p.table = k
	}
	for update, err := range client.New(client.DefaultSocket()).WatchContainers(context.Background(), client.ContainerOptions{}) {
		if err == nil {
			err = p.take(update)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}
