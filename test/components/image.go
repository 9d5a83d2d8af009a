package components

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

// Image is the only image of the runtime. Its program is test/components/image, which
// pauses without arguments.
const Image = "docker.io/podconfigd/test:1"

// writeImage writes an archive with Image, in the format of docker save.
func writeImage(tb testing.TB, path string) {
	tb.Helper()
	binary, err := os.ReadFile(testutil.MustProgram(tb, ".", "./test/components/image"))
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
