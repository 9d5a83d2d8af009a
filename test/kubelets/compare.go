package kubelets

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// Result is what became of a manifest.
type Result struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"`
	// Pods are the pods as JSON. There are none if the manifest is not accepted.
	Pods []json.RawMessage `json:"pods,omitempty"`
}

// Accepted reports whether the manifest is accepted.
func (r *Result) Accepted() bool { return r.Error == "" }

// canonical returns the pod with its fields in order, without those that are null or empty structs: the
// encoding of these differs between versions.
func canonical(pod json.RawMessage) string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(pod))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		panic(err)
	}
	if o, ok := value.(object); ok {
		delete(o, "kind") // an item of a list has one
		delete(o, "apiVersion")
		delete(o, "status") // podconfigd takes none from a manifest
	}
	data, err := json.Marshal(prune(value))
	if err != nil {
		panic(err)
	}
	return string(data)
}

func prune(value any) any {
	switch value := value.(type) {
	case object:
		for name, part := range value {
			part = prune(part)
			if o, isObject := part.(object); part == nil || isObject && len(o) == 0 && name == "resources" {
				delete(value, name)
			}
		}
	case []any:
		for i, part := range value {
			value[i] = prune(part)
		}
	}
	return value
}

// Show returns the pods, a line each, or the error.
func (r *Result) Show() string {
	if !r.Accepted() {
		return "refused"
	}
	lines := make([]string, 0, len(r.Pods))
	for _, pod := range r.Pods {
		lines = append(lines, canonical(pod))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Sum is a checksum of Show; 0 for a refused manifest.
func (r *Result) Sum() uint32 {
	if !r.Accepted() {
		return 0
	}
	return max(1, crc32.ChecksumIEEE([]byte(r.Show())))
}

// Node is the name of the node.
const Node = types.NodeName("node1")

// Ours returns what podconfigd makes of a manifest by the rules of a minor.
func Ours(m manifest.Minor, in *Manifest) (out Result) {
	decoder := manifest.NewDecoder(Node).For(m)
	out.ID = in.ID
	add := func(pod *v1.Pod, err error) {
		if err != nil {
			out.Error = err.Error()
			return
		}
		data, err := json.Marshal(pod)
		if err != nil {
			panic(err)
		}
		out.Pods = append(out.Pods, data)
	}
	if in.File != "" {
		pod, _, err := decoder.DecodeFile(in.File, in.Data)
		add(pod, err)
		return out
	}
	items, err := decoder.DecodeURL(in.URL, in.Data)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	for item := range items {
		add(item.Pod, item.Err)
	}
	return out
}

// Kubelet runs the program of test/conformance/kubelets.
func Kubelet(ctx context.Context, program string, corpus []Manifest) ([]Result, error) {
	var in bytes.Buffer
	encoder := json.NewEncoder(&in)
	for i := range corpus {
		if err := encoder.Encode(&corpus[i]); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", program, err)
	}
	results := make([]Result, 0, len(corpus))
	for decoder := json.NewDecoder(bufio.NewReader(bytes.NewReader(out))); decoder.More(); {
		var r Result
		if err := decoder.Decode(&r); err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	if len(results) != len(corpus) {
		return nil, fmt.Errorf("%s answered %d of %d manifests", program, len(results), len(corpus))
	}
	return results, nil
}
