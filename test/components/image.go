package components

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// Image is the image that every runtime has. Its program is test/components/image, which
// pauses without arguments.
const Image = "docker.io/podconfigd/test:1"

// ImageConfig is what an image says about the process of its containers.
type ImageConfig struct {
	Entrypoint, Env []string
	User            string            `json:",omitempty"`
	Labels          map[string]string `json:",omitempty"`
}

// ImageFile is a file of an image, or a directory if Mode says so.
type ImageFile struct {
	Name     string
	Mode     fs.FileMode
	UID, GID int
	Data     []byte
}

// writeTestImage writes an archive with Image.
func writeTestImage(tb testing.TB, path string) {
	tb.Helper()
	binary, err := os.ReadFile(testutil.MustProgram(tb, ".", "./test/components/image"))
	if err != nil {
		tb.Fatal(err)
	}
	writeImage(tb, path, Image, ImageConfig{Entrypoint: []string{"/image"}, Env: []string{"GOMAXPROCS=1"}},
		[]ImageFile{{Name: "image", Mode: 0o755, Data: binary}})
}

// writeImage writes an archive with an image of one layer, in the format of docker save.
func writeImage(tb testing.TB, path, name string, image ImageConfig, files []ImageFile) {
	tb.Helper()
	layer := archive(tb, files...)
	config := object(tb, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": image,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	manifest := object(tb, []map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	writeFile(tb, path, archive(tb, ImageFile{Name: "manifest.json", Mode: 0o644, Data: manifest},
		ImageFile{Name: "config.json", Mode: 0o644, Data: config}, ImageFile{Name: "layer.tar", Mode: 0o644, Data: layer}))
}

func archive(tb testing.TB, files ...ImageFile) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.Name, Mode: int64(f.Mode.Perm()), Uid: f.UID, Gid: f.GID, Size: int64(len(f.Data)), Typeflag: tar.TypeReg}
		if f.Mode.IsDir() {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write(f.Data); err != nil {
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
