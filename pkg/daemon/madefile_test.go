package daemon

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

// A file of the directories of the socket and the state is a daemon's or is not. That the daemon
// makes no others is tested by test/script.
func TestMadeFile(t *testing.T) {
	files := fstest.MapFS{}
	for name, mode := range map[string]fs.FileMode{
		"podconfigd.sock": fs.ModeSocket, "any": fs.ModeSocket,
		"any.revision": 0, "any.revision.new": 0, ".any.revision123": 0,
		"lock": 0, "journal-0000000001.log": 0, "journal-0000000002.log.damaged-20261122T000000Z+": 0,
		"access-rules": 0, "access-rules.new": 0, ".podconfigd.sock.lock": 0,
	} {
		files["ours/"+name] = &fstest.MapFile{Mode: mode}
	}
	for name, mode := range map[string]fs.FileMode{
		"passwd": 0, "journal": 0, "journal-.log": 0, "journal-a.log": 0, "any.revision123": 0, "access-rules.yaml": 0, "a.lock": 0, ".lock": 0, "..lock": 0,
		"directory": fs.ModeDir, "lock": fs.ModeDir, "journal-0000000001.log": fs.ModeSymlink, "any.revision": fs.ModeDevice,
	} {
		files["foreign/"+name] = &fstest.MapFile{Mode: mode}
	}
	for dir, want := range map[string]bool{"ours": true, "foreign": false} {
		entries, err := files.ReadDir(dir)
		if err != nil || len(entries) < 9 {
			t.Fatal(entries, err)
		}
		for _, e := range entries {
			if got := MadeFile(e); got != want {
				t.Errorf("%s %v: got %v", dir, e, got)
			}
		}
	}
}
