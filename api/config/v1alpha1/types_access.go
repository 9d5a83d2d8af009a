package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Authentication is how clients of https addresses prove who they are.
type Authentication struct {
	// x509 is authentication with client certificates.
	X509 X509Authentication `json:"x509,omitzero"`
	// webhook is authentication with bearer tokens that the apiserver reviews.
	Webhook WebhookAuthentication `json:"webhook,omitzero"`
	// anonymous is for requests without credentials.
	Anonymous AnonymousAuthentication `json:"anonymous,omitzero"`
	// tokenAuthFile is the path to a file with lines "token,user,uid[,groups]".
	TokenAuthFile string `json:"tokenAuthFile,omitempty"`
}

// X509Authentication is authentication with client certificates.
type X509Authentication struct {
	// clientCAFile is the path to the CA certificates of client certificates. The common name is
	// the user, and the organizations are the groups.
	ClientCAFile string `json:"clientCAFile,omitempty"`
}

// WebhookAuthentication is authentication with bearer tokens that the apiserver reviews.
type WebhookAuthentication struct {
	// enabled reviews bearer tokens with TokenReview.
	Enabled bool `json:"enabled,omitempty"`
	// cacheTTL is how long an answer is valid.
	CacheTTL *metav1.Duration `json:"cacheTTL,omitempty"`
}

// AnonymousAuthentication is for requests without credentials.
type AnonymousAuthentication struct {
	// enabled lets requests without credentials pass as the user system:anonymous, in the group
	// system:unauthenticated.
	Enabled bool `json:"enabled,omitempty"`
}

// Authorization is what clients of https addresses may do.
type Authorization struct {
	// mode is Webhook, which asks the apiserver with SubjectAccessReview, or AlwaysAllow.
	// +enum=AlwaysAllow,Webhook
	Mode string `json:"mode,omitempty"`
	// webhook is for the mode Webhook.
	Webhook WebhookAuthorization `json:"webhook,omitzero"`
}

// WebhookAuthorization is for the mode Webhook.
type WebhookAuthorization struct {
	// cacheAuthorizedTTL is how long it is valid that a client may do something.
	CacheAuthorizedTTL *metav1.Duration `json:"cacheAuthorizedTTL,omitempty"`
	// cacheUnauthorizedTTL is how long it is valid that a client may not do something.
	CacheUnauthorizedTTL *metav1.Duration `json:"cacheUnauthorizedTTL,omitempty"`
}

// AccessRule says what some clients see of some pods.
type AccessRule struct {
	// users are names of users of this machine, for clients on sockets. A client that is in one of
	// users, uids, groups, gids, authenticatedUsers and authenticatedGroups matches. If all of them
	// are empty, every client matches.
	// +notEmpty
	Users []string `json:"users,omitempty"`
	// uids are numbers of users of client processes.
	// +notEmpty
	UIDs []uint32 `json:"uids,omitempty"`
	// groups are names of groups of the client process, supplementary groups included.
	// +notEmpty
	Groups []string `json:"groups,omitempty"`
	// gids are numbers of groups of client processes, supplementary groups included.
	// +notEmpty
	GIDs []uint32 `json:"gids,omitempty"`
	// authenticatedUsers are names of users of certificates and tokens, for clients over TCP.
	// +notEmpty
	AuthenticatedUsers []string `json:"authenticatedUsers,omitempty"`
	// authenticatedGroups are groups of users of certificates and tokens, for clients over TCP.
	// +notEmpty
	AuthenticatedGroups []string `json:"authenticatedGroups,omitempty"`
	// sources restrict the rule to the pods of sources: file, http, api, file:NAME, http:NAME.
	// +notEmpty
	Sources []string `json:"sources,omitempty"`
	// namespaces restrict the rule to the pods of namespaces.
	// +notEmpty
	Namespaces []string `json:"namespaces,omitempty"`
	// labelSelector restricts the rule to pods with matching labels, for example app=web.
	// +notEmpty
	LabelSelector string `json:"labelSelector,omitempty"`
	// view is what the clients see of the pods. full is the whole pod. redacted leaves out the
	// values of environment variables, args, commands and annotations. metadata is names, UID,
	// labels, node and status. none hides the pod.
	// +enum=full,redacted,metadata,none
	View string `json:"view"`
	// annotations are the keys of the annotations that the view redacted shows.
	Annotations []string `json:"annotations,omitempty"`
}
