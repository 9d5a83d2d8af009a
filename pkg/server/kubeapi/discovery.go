package kubeapi

import (
	"net/http"

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

// apiResources returns the resources of api/v1.
func apiResources() *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "v1"}
	for _, res := range resources {
		list.APIResources = append(list.APIResources, res.APIResource)
	}
	return list
}
