package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credentialsOf names the user of a usable kubeconfig and the location of the
// credentials.
func credentialsOf(path string, file *clientcmdapi.Config) string {
	name := file.Contexts[file.CurrentContext].AuthInfo
	user := cmp.Or(file.AuthInfos[name], &clientcmdapi.AuthInfo{})
	var what string
	switch {
	case user.Exec != nil:
		what = "command " + user.Exec.Command
	case user.ClientCertificate != "":
		what = "client certificate " + user.ClientCertificate
	case len(user.ClientCertificateData) > 0:
		what = "client certificate in the kubeconfig"
	case user.TokenFile != "":
		what = "token file " + user.TokenFile
	case user.Token != "":
		what = "token in the kubeconfig"
	case user.Username != "":
		what = "password in the kubeconfig"
	default:
		what = "no credentials"
	}
	return fmt.Sprintf("user %q of kubeconfig %s (%s)", name, path, what)
}

// refused adds the credentials to an error if the apiserver refused them.
func (c *client) refused(err error) error {
	switch {
	case apierrors.IsUnauthorized(err), refusedInTLS(err):
		return fmt.Errorf("the apiserver refused the credentials of %s: %w", c.credentials, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w", c.credentials, err)
	}
	return err
}

// refusedInTLS reports whether the error is a TLS server's alert about the client
// certificate.
func refusedInTLS(err error) bool {
	alert, ok := errors.AsType[*net.OpError](err)
	return ok && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate")
}
