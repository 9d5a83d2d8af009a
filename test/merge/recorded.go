package merge

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Recording has sequences with the updates of a kubelet. Each pod is in it once.
type Recording struct {
	Kubelet   string
	Pods      []json.RawMessage
	Sequences []Sequence

	numbers map[string]int
}

// Sequence is a recorded sequence: its sets, and the updates of each set in each mode.
type Sequence struct {
	Steps   []Step
	Updates [][][]Recorded
}

// Recorded is an update. Its pods are indexes of Recording.Pods.
type Recorded struct {
	Op, Source string
	Pods       []int
}

// Record returns the updates in the form of the recording, which gets the pods that it does not have.
func (r *Recording) Record(updates []Update) []Recorded {
	if r.numbers == nil {
		r.numbers = make(map[string]int)
		for i, p := range r.Pods {
			r.numbers[string(p)] = i
		}
	}
	recorded := make([]Recorded, len(updates))
	for i, u := range updates {
		recorded[i] = Recorded{u.Op, u.Source, make([]int, len(u.Pods))}
		for j, p := range u.Pods {
			pod := content(p)
			number, ok := r.numbers[pod]
			if !ok {
				number = len(r.Pods)
				r.numbers[pod], r.Pods = number, append(r.Pods, json.RawMessage(pod))
			}
			recorded[i].Pods[j] = number
		}
	}
	return recorded
}

// Show returns the updates with their pods as JSON, for people.
func (r *Recording) Show(updates []Recorded) string {
	var text strings.Builder
	for _, u := range updates {
		fmt.Fprintf(&text, "%s %s\n", u.Op, u.Source)
		for _, p := range u.Pods {
			fmt.Fprintf(&text, "  %s\n", r.Pods[p])
		}
	}
	return text.String()
}

// Write writes the recording to a file.
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

// ReadRecording reads a recording from a file.
func ReadRecording(path string) (*Recording, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	r := new(Recording)
	if err := json.NewDecoder(packed).Decode(r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return r, nil
}
