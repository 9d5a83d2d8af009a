package follow

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	if err := errors.Join(
		os.MkdirAll(at("data", "v1"), 0o755), os.WriteFile(at("data", "v1", "f"), nil, 0o644),
		os.Symlink("v1", at("data", "current")), os.Symlink("data/current/f", at("link")), os.Symlink(at("link"), at("again")),
		os.Symlink("round", at("turn")), os.Symlink("turn", at("round")), os.Symlink("../nothing", at("data", "dangling")),
	); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path, real string
		hops       []string
		err        error
	}{
		"no link":        {at("data", "v1", "f"), at("data", "v1", "f"), []string{at("data", "v1", "f")}, nil},
		"link to a link": {at("again"), at("data", "v1", "f"), []string{at("again"), at("link"), at("data", "current"), at("data", "v1", "f")}, nil},
		"dangling link":  {at("data", "dangling"), at("nothing"), []string{at("data", "dangling"), at("nothing")}, syscall.ENOENT},
		"dots":           {at("data", "..", "data", ".", "v1"), at("data", "v1"), []string{at("data", "v1")}, nil},
		"missing":        {at("nothing", "below"), at("nothing"), []string{at("nothing")}, syscall.ENOENT},
		"loop":           {at("round"), "", nil, syscall.ELOOP},
	} {
		t.Run(name, func(t *testing.T) {
			hops, real, err := resolve(test.path)
			if !errors.Is(err, test.err) {
				t.Errorf("%s: %v, want %v", test.path, err, test.err)
			}
			if test.hops == nil {
				return
			}
			var got []string
			for _, h := range hops {
				got = append(got, h.path())
			}
			if real != test.real || fmt.Sprint(got) != fmt.Sprint(test.hops) {
				t.Errorf("%s leads to %s by %v, want %s by %v", test.path, real, got, test.real, test.hops)
			}
		})
	}
}
