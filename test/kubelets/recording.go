package kubelets

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
)

// recordingFile is the file of the recorded results.
const recordingFile = "testdata/kubelets.json.gz"

// Recording has what the kubelets of all minors made of a corpus.
type Recording struct {
	// Corpus is the checksum of the manifests.
	Corpus uint32
	// Sums are the checksums of the results, by minor, in the order of the manifests.
	Sums map[string][]uint32
}

func sumOf(corpus []Manifest) uint32 {
	sum := crc32.NewIEEE()
	if err := json.NewEncoder(sum).Encode(corpus); err != nil {
		panic(err)
	}
	return sum.Sum32()
}

// ReadRecording reads a recording.
func ReadRecording(path string) (r Recording, err error) {
	file, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return r, err
	}
	err = json.NewDecoder(packed).Decode(&r)
	return r, err
}

// Write writes the recording.
func (r *Recording) Write(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	packed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(packed).Encode(r), packed.Close())
}
