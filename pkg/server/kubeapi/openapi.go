package kubeapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/munnerz/goautoneg"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// openAPIV3 describes the part of api/v1 that is served. TestOpenAPIDocument extracts it from
// the document that Kubernetes publishes. It is stored and sent compressed.
//
//go:generate go test -run ^TestOpenAPIDocument$ . -update
//go:embed openapi_v3.json.gz
var openAPIV3 []byte

// An empty document of version 2, as JSON and as the protobuf message
// openapi.v2.Document. With it, kubectl does not validate objects whose kind is not served, and
// reports that the server has no such kind.
const (
	openAPIV2JSON     = `{"swagger":"2.0","info":{"title":"podconfigd","version":"v1"},"paths":{}}` + "\n"
	openAPIV2Protobuf = "\x0a\x032.0\x12\x10\x0a\x0apodconfigd\x12\x02v1"
)

// Media types of the document of version 2 as protobuf. Clients request the first. It is not
// a valid media type for an answer.
//
// apiserver: k8s.io/kube-openapi/pkg/handler.
const (
	openAPIV2Requested = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	openAPIV2Answered  = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

// openAPIHash is the hash of the document. Clients cache the document by its hash.
var openAPIHash = sync.OnceValue(func() string {
	sum := sha256.Sum256(openAPIV3)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
})

const openAPIPath = "/openapi/v3/api/v1"

// openAPIIndex lists the documents.
func openAPIIndex(w http.ResponseWriter, _ *http.Request) {
	type document struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	respond.JSON(w, map[string]map[string]document{"paths": {"api/v1": {openAPIPath + "?hash=" + openAPIHash()}}})
}

// openAPI answers with the document.
func (a *API) openAPI(w http.ResponseWriter, r *http.Request) {
	if accepted(r, jsonType) == "" {
		respond.Status(w, notAcceptable(r))
		return
	}
	respond.Within(w, a.Limits.ListTimeout)
	header := w.Header()
	header.Set("Etag", `"`+openAPIHash()+`"`)
	header.Set("Vary", "Accept-Encoding")
	if r.URL.Query().Get("hash") == openAPIHash() {
		header.Set("Cache-Control", "public, immutable, max-age=31536000")
	}
	if r.Header.Get("If-None-Match") == header.Get("Etag") {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", jsonType)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		_, _ = w.Write(openAPIV3) // the client may have gone away
		return
	}
	document, err := gzip.NewReader(bytes.NewReader(openAPIV3))
	if err == nil {
		_, _ = io.Copy(w, document) // as above
	}
}

// openAPIEmpty answers with the document of version 2.
func openAPIEmpty(w http.ResponseWriter, r *http.Request) {
	switch accepted(r, jsonType, openAPIV2Requested, openAPIV2Answered) {
	case "":
		respond.Status(w, notAcceptable(r))
	case jsonType:
		w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(w, openAPIV2JSON) // the client may have gone away
	default:
		w.Header().Set("Content-Type", openAPIV2Answered)
		_, _ = io.WriteString(w, openAPIV2Protobuf) // as above
	}
}

// accepted returns the first of the types that the request accepts, or "".
func accepted(r *http.Request, types ...string) string {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return types[0]
	}
	return goautoneg.Negotiate(accept, types)
}
