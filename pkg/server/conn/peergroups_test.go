package conn

import (
	"net"
	"os"
	"slices"
	"testing"
)

// Supplementary groups count. The user and the groups of a process are those of the kernel.
func TestGroupsOfAProcess(t *testing.T) {
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	socket, ok := server.(*net.UnixConn)
	if !ok {
		t.Fatal("not a unix socket")
	}
	s := processSubject(socket)
	want, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if s.UID == nil || *s.UID != uint32(os.Getuid()) || !slices.Contains(s.GIDs, uint32(os.Getgid())) {
		t.Errorf("%+v", s)
	}
	for _, gid := range want {
		if !slices.Contains(s.GIDs, uint32(gid)) {
			t.Errorf("group %d is missing in %v", gid, s.GIDs)
		}
	}
}

func TestMapsAll(t *testing.T) {
	for lines, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"0 100000 65536\n":                   false,
		"0 1000 1\n1 100000 65536\n":         false,
		"":                                   false,
	} {
		t.Run(lines, func(t *testing.T) {
			if got := mapsAll(lines); got != want {
				t.Errorf("%q: %v", lines, got)
			}
		})
	}
	if id := unknownID("/nonexistent", "/nonexistent"); id != 65534 {
		t.Errorf("without a mapping, the ID is %d", id)
	}
}
