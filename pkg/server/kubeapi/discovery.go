package kubeapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/munnerz/goautoneg"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// The discovery documents of a server that has only the core group.
var (
	apiVersions = &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: []string{"v1"}, ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	}
	apiGroups = &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
	}
)

func object(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { respond.JSON(w, v) }
}

// aggregatedType is the media type of discovery in one document per path. kubectl and
// client-go prefer it.
//
// apiserver: k8s.io/apiserver/pkg/endpoints/discovery/aggregated.
const aggregatedType = jsonType + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// discovery answers with the groups in one document, if the request prefers it, and
// otherwise with the object.
func discovery(v any, groups ...apidiscoveryv2.APIGroupDiscovery) http.HandlerFunc {
	all := &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscoveryv2.SchemeGroupVersion.String()},
		Items:    append([]apidiscoveryv2.APIGroupDiscovery{}, groups...),
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if !prefersAggregated(r) {
			respond.JSON(w, v)
			return
		}
		data, err := json.Marshal(all)
		if err != nil { // can't happen
			respond.Error(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.Header().Set("Content-Type", aggregatedType)
		_, _ = w.Write(append(data, '\n')) // the client may have gone away
	}
}

// prefersAggregated reports whether the request prefers aggregatedType to plain JSON.
func prefersAggregated(r *http.Request) bool {
	for _, clause := range goautoneg.ParseAccept(strings.Join(r.Header.Values("Accept"), ",")) {
		if clause.Type != "application" || clause.SubType != "json" {
			continue
		}
		switch p := clause.Params; {
		case p["as"] == "":
			return false
		case p["as"] == "APIGroupDiscoveryList" && p["g"] == apidiscoveryv2.GroupName && p["v"] == "v2":
			return true
		}
	}
	return false
}

// coreGroup is the core group for aggregated discovery.
func coreGroup() apidiscoveryv2.APIGroupDiscovery {
	version := apidiscoveryv2.APIVersionDiscovery{Version: "v1", Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, res := range resources {
		scope := apidiscoveryv2.ScopeCluster
		if res.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource: res.Name, ResponseKind: &metav1.GroupVersionKind{Kind: res.Kind}, Scope: scope,
			SingularResource: res.SingularName, Verbs: res.Verbs, ShortNames: res.ShortNames, Categories: res.Categories,
		})
	}
	return apidiscoveryv2.APIGroupDiscovery{Versions: []apidiscoveryv2.APIVersionDiscovery{version}}
}

// apiResources returns the resources of api/v1.
func apiResources() *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "v1"}
	for _, res := range resources {
		list.APIResources = append(list.APIResources, res.APIResource)
	}
	return list
}

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
		_, _ = io.Copy(w, document) //nolint:gosec // as above; the document is ours
	}
}
