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
	if accept := r.Header.Get("Accept"); accept != "" && goautoneg.Negotiate(accept, []string{jsonType}) == "" {
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
