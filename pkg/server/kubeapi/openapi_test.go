package kubeapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

var update = flag.Bool("update", false, "write openapi_v3.json.gz")

// TestOpenAPIDocument compares the served document with the one of Kubernetes, in the
// version of go.mod. With -update it writes the document.
func TestOpenAPIDocument(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("looking for k8s.io/kubernetes: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "api", "openapi-spec", "v3", "api__v1_openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(cutOut(t, data))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		var compressed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // the level exists
		if _, err := w.Write(want); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("openapi_v3.json.gz", compressed.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	r, err := gzip.NewReader(bytes.NewReader(openAPIV3))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("openapi_v3.json.gz is not what k8s.io/kubernetes in go.mod publishes (%v): run go generate", err)
	}
}

// describedPaths returns the paths of all resources.
func describedPaths() (paths []string) {
	for _, res := range resources {
		all, one := res.paths()
		paths = append(append(paths, all...), one)
	}
	return paths
}

type jsonObject = map[string]any

// cutOut returns the part of Kubernetes' document of api/v1 that podconfigd serves:
// lists, watches and gets of its resources, and the schemas of the answers. It adds the parameter that only podconfigd has.
func cutOut(t *testing.T, data []byte) jsonObject {
	t.Helper()
	var document struct {
		OpenAPI    string
		Components struct{ Schemas map[string]any }
		Paths      map[string]jsonObject
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	paths := jsonObject{}
	for _, path := range describedPaths() {
		from := document.Paths[path]
		get := from["get"].(jsonObject)
		paths[path] = jsonObject{"get": get, "parameters": honored(from["parameters"])}
		if get["parameters"] != nil {
			get["parameters"] = honored(get["parameters"])
		}
		answers := get["responses"].(jsonObject)
		content := answers["200"].(jsonObject)["content"].(jsonObject)
		maps.DeleteFunc(content, func(contentType string, _ any) bool {
			return !strings.HasPrefix(contentType, jsonType) && !strings.HasPrefix(contentType, protobufType)
		})
		delete(answers, "401")
	}
	for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/{namespace}/pods"} { // not a parameter of Kubernetes
		get := paths[path].(jsonObject)["get"].(jsonObject)
		parameters, _ := get["parameters"].([]any) // a list of all namespaces has those of its path
		get["parameters"] = append(parameters, jsonObject{
			"name": "owner", "in": "query", "schema": jsonObject{"type": "string", "uniqueItems": true},
			"description": "Select pods by one of their owners, as KIND/NAME or KIND.GROUP/NAME. Requires --owners of podconfigd.",
		})
	}
	// If the document shows that the server validates an object, kubectl sends it without
	// its own validation. Then it prints the server's answer.
	for _, res := range resources {
		_, one := res.paths()
		named := paths[one].(jsonObject)
		named["patch"] = jsonObject{
			"description": "not supported: podconfigd is read-only",
			"operationId": document.Paths[one]["patch"].(jsonObject)["operationId"],
			"parameters": []any{jsonObject{
				"name": "fieldValidation", "in": "query", "description": "without effect",
				"schema": jsonObject{"type": "string"},
			}},
			"responses":                       jsonObject{"405": jsonObject{"description": "Method Not Allowed"}},
			"x-kubernetes-action":             "patch",
			"x-kubernetes-group-version-kind": named["get"].(jsonObject)["x-kubernetes-group-version-kind"],
		}
	}
	schemas := jsonObject{}
	addSchemas(schemas, document.Components.Schemas, paths)
	return jsonObject{
		"openapi":    document.OpenAPI,
		"info":       jsonObject{"title": "podconfigd", "description": "the pods of a node, the node and its namespaces, read-only", "version": "v1"},
		"paths":      paths,
		"components": jsonObject{"schemas": schemas},
	}
}

// honored returns the parameters that podconfigd does not ignore.
func honored(parameters any) []any {
	return slices.DeleteFunc(parameters.([]any), func(p any) bool {
		return slices.Contains([]string{"pretty", "shardSelector"}, p.(jsonObject)["name"].(string))
	})
}

// addSchemas adds the schemas that a value refers to, directly or indirectly.
func addSchemas(to jsonObject, all map[string]any, value any) {
	switch value := value.(type) {
	case jsonObject:
		for key, v := range value {
			if ref, ok := v.(string); ok && key == "$ref" {
				name := strings.TrimPrefix(ref, "#/components/schemas/")
				if to[name] == nil {
					to[name] = all[name]
					addSchemas(to, all, all[name])
				}
				continue
			}
			addSchemas(to, all, v)
		}
	case []any:
		for _, v := range value {
			addSchemas(to, all, v)
		}
	}
}

func TestOpenAPI(t *testing.T) {
	a := serve(t, journal.Options{})
	_, body := a.get(t, "/openapi/v3", "")
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal([]byte(body), &index); err != nil {
		t.Fatal(err)
	}
	got := a.do(t, http.MethodGet, index.Paths["api/v1"].ServerRelativeURL, jsonType, "") // the client requests gzip, and decompresses
	var document struct {
		Components struct{ Schemas map[string]any }
		Paths      map[string]map[string]any
	}
	if err := json.NewDecoder(got.body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	if !got.uncompressed || got.header.Get("Content-Type") != jsonType || !strings.Contains(got.header.Get("Cache-Control"), "immutable") {
		t.Errorf("answered as %v", got.header)
	}
	if n := len(document.Components.Schemas); n < 100 || document.Components.Schemas["io.k8s.api.core.v1.Pod"] == nil {
		t.Errorf("%d schemas", n)
	}
	want := make(map[string][]string)
	for _, path := range describedPaths() {
		if want[path] = []string{"get", "parameters"}; strings.HasSuffix(path, "/{name}") {
			want[path] = append(want[path], "patch")
		}
	}
	paths := make(map[string][]string)
	for path, operations := range document.Paths {
		paths[path] = slices.Sorted(maps.Keys(operations))
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}

	// Without gzip, and with another hash.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+openAPIPath+"?hash=OTHER", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	plain, err := a.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Body.Close()
	if data, err := io.ReadAll(plain.Body); err != nil || !json.Valid(data) || plain.Header.Get("Content-Encoding") != "" || plain.Header.Get("Cache-Control") != "" {
		t.Errorf("plain: %v, %v, %.100s", err, plain.Header, data)
	}
	req.Header.Set("If-None-Match", got.header.Get("Etag"))
	again, err := a.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Body.Close()
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("the document that the client has: %s", again.Status)
	}
	if code, body := a.get(t, openAPIPath, "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"); code != http.StatusNotAcceptable {
		t.Errorf("as protobuf: %d %.100s", code, body)
	}
	if code, body := a.get(t, "/openapi/v3/apis/apps/v1", ""); code != http.StatusNotFound {
		t.Errorf("of another group: %d %s", code, body)
	}
	if code, body := a.get(t, "/openapi/v2", ""); code != http.StatusNotFound {
		t.Errorf("version 2: %d %s", code, body)
	}
}
