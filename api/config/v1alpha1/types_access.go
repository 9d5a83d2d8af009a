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
	// tokenAuthFile is the path to a CSV file of bearer tokens for https addresses, each line
	// `token,user,uid[,"group1,group2"]`. Reloaded when the file changes.
	// +flag=token-auth-file
	// +path
	TokenAuthFile string `json:"tokenAuthFile,omitempty"`
}

// X509Authentication is authentication with client certificates.
type X509Authentication struct {
	// clientCAFile is the path to CA certificates. On https addresses, a client certificate of one
	// of them authenticates its common name as the user and its organizations as the groups.
	// Reloaded when the file changes.
	// +flag=client-ca-file
	// +path
	ClientCAFile string `json:"clientCAFile,omitempty"`
}

// WebhookAuthentication is authentication with bearer tokens that the apiserver reviews.
type WebhookAuthentication struct {
	// enabled asks the apiserver of kubeconfig about bearer tokens of clients of https addresses
	// (TokenReview). Without clientCAFile, tokenAuthFile and anonymous, it is asked in any case.
	// +flag=authentication-token-webhook
	Enabled bool `json:"enabled,omitempty"`
	// cacheTTL is the time for which an answer to a TokenReview is valid. 0s stands for the default.
	// +flag=authentication-token-webhook-cache-ttl
	// +defaultValue=2m
	// +minimum=0s
	// +maximum=24h
	CacheTTL *metav1.Duration `json:"cacheTTL,omitempty"`
}

// AnonymousAuthentication is for requests without credentials.
type AnonymousAuthentication struct {
	// enabled lets requests without credentials to https addresses pass as the user
	// system:anonymous, in the group system:unauthenticated.
	// +flag=anonymous-auth
	Enabled bool `json:"enabled,omitempty"`
}

// Authorization is what clients of https addresses may do.
type Authorization struct {
	// mode is how requests to https addresses are authorized. Webhook asks the apiserver of
	// kubeconfig (SubjectAccessReview). AlwaysAllow allows everything to users that are
	// authenticated. If empty, it is Webhook.
	// +enum=Webhook,AlwaysAllow
	// +flag=authorization-mode
	Mode string `json:"mode,omitempty"`
	// webhook is for the mode Webhook.
	Webhook WebhookAuthorization `json:"webhook,omitzero"`
}

// WebhookAuthorization is for the mode Webhook.
type WebhookAuthorization struct {
	// cacheAuthorizedTTL is the time for which the answer to a SubjectAccessReview is valid if it
	// allows the request. 0s stands for the default.
	// +flag=authorization-webhook-cache-authorized-ttl
	// +defaultValue=5m
	// +minimum=0s
	// +maximum=24h
	CacheAuthorizedTTL *metav1.Duration `json:"cacheAuthorizedTTL,omitempty"`
	// cacheUnauthorizedTTL is the time for which the answer to a SubjectAccessReview is valid if it
	// denies the request. 0s stands for the default.
	// +flag=authorization-webhook-cache-unauthorized-ttl
	// +defaultValue=30s
	// +minimum=0s
	// +maximum=24h
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
