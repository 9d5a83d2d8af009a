package components

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// Image is the image that the runtime has: its one program is test/components/image,
// which pauses if no arguments say otherwise.
const Image = "docker.io/podconfigd/test:1"

// program returns that program, built once.
var program = sync.OnceValues(func() ([]byte, error) {
	_, here, _, _ := runtime.Caller(0)
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "image")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./image")
	cmd.Dir = filepath.Dir(here)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the image's program: %w: %s", err, said)
	}
	return os.ReadFile(out)
})

// writeImage writes an archive as docker save makes them, with Image in it.
func writeImage(tb testing.TB, path string) {
	tb.Helper()
	binary, err := program()
	if err != nil {
		tb.Fatal(err)
	}
	layer := archive(tb, file{"image", 0o755, binary})
	config := object(tb, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/image"}, "Env": []string{"GOMAXPROCS=1"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	manifest := object(tb, []map[string]any{{"Config": "config.json", "RepoTags": []string{Image}, "Layers": []string{"layer.tar"}}})
	writeFile(tb, path, archive(tb, file{"manifest.json", 0o644, manifest}, file{"config.json", 0o644, config}, file{"layer.tar", 0o644, layer}))
}

type file struct {
	name string
	mode int64
	data []byte
}

func archive(tb testing.TB, files ...file) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data))}); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func object(tb testing.TB, v any) []byte {
	tb.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}
