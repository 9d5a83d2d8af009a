// Command config decodes manifests with the config code of a kubelet.
//
// It reads a JSON object per line: {"id": …, "file": path, or "url": …, "data": …}, and writes one per
// line: {"id": …, "error": …, "pods": […]}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
)

type input struct {
	ID   string `json:"id"`
	File string `json:"file"`
	URL  string `json:"url"`
	Data []byte `json:"data"`
}

type output struct {
	ID    string    `json:"id"`
	Error string    `json:"error,omitempty"`
	Pods  []*v1.Pod `json:"pods,omitempty"`
}

const node = "node1"

func main() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for decoder.More() {
		var i input
		if err := decoder.Decode(&i); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		o := output{ID: i.ID}
		pods, err := decode(i)
		if err != nil {
			o.Error = err.Error()
		} else {
			o.Pods = pods
		}
		if err := encoder.Encode(o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// decode does what the kubelet's file and URL sources do.
//
// kubelet: pkg/kubelet/config/file.go extractFromFile, http.go extractFromURL.
func decode(i input) ([]*v1.Pod, error) {
	source, isFile := i.URL, i.File != ""
	if isFile {
		source = i.File
	}
	parsed, pod, err := single(i.Data, source, isFile)
	if parsed {
		if err != nil {
			return nil, err
		}
		return []*v1.Pod{pod}, nil
	}
	if isFile {
		return nil, err
	}
	parsed, list, multiErr := list(i.Data, source)
	if parsed {
		if multiErr != nil {
			return nil, multiErr
		}
		pods := make([]*v1.Pod, 0, len(list.Items))
		for i := range list.Items {
			pods = append(pods, &list.Items[i])
		}
		return pods, nil
	}
	return nil, fmt.Errorf("received %d bytes that are neither a pod (%w) nor a list (%w)", len(i.Data), err, multiErr)
}
