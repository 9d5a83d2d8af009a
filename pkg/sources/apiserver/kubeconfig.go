package apiserver

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// filesOf returns why a file that the kubeconfig names can't be read. client-go opens them
// too, but a FIFO blocks it. For a missing file, it has the better error.
func filesOf(file *clientcmdapi.Config) error {
	context := file.Contexts[file.CurrentContext]
	names := []string{file.Clusters[context.Cluster].CertificateAuthority}
	if user := file.AuthInfos[context.AuthInfo]; user != nil {
		names = append(names, user.ClientCertificate, user.ClientKey, user.TokenFile)
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		if _, err := smallfile.Read(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// loadFiles replaces the names of files by their contents. The token file stays: client-go
// reads it again for later requests.
func loadFiles(conf *rest.Config) error {
	for _, f := range []struct {
		name string
		data *[]byte
	}{{conf.CAFile, &conf.CAData}, {conf.CertFile, &conf.CertData}, {conf.KeyFile, &conf.KeyData}} {
		if f.name == "" || len(*f.data) > 0 {
			continue
		}
		var err error
		if *f.data, err = smallfile.Read(f.name); err != nil {
			return err
		}
	}
	return nil
}

func configName(kubeconfig string) string {
	if kubeconfig == "" {
		return "in-cluster configuration"
	}
	return "kubeconfig " + kubeconfig
}

// loadConfig reads a kubeconfig, or the pod's service account if the path is empty. It
// also returns the name of the credentials.
func loadConfig(kubeconfig string) (conf *rest.Config, credentials string, err error) {
	if kubeconfig == "" {
		conf, err = rest.InClusterConfig()
		return conf, "service account token " + serviceAccountToken, err
	}
	data, err := smallfile.Read(kubeconfig)
	if err != nil {
		return nil, "", err
	}
	file, err := clientcmd.Load(data)
	if err != nil {
		return nil, "", err
	}
	// As clientcmd.LoadFromFile: relative paths are relative to the kubeconfig.
	for _, cluster := range file.Clusters {
		cluster.LocationOfOrigin = kubeconfig
	}
	for _, user := range file.AuthInfos {
		user.LocationOfOrigin = kubeconfig
	}
	if err := usable(file); err != nil {
		return nil, "", err
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, "", err
	}
	if err := filesOf(file); err != nil {
		return nil, credentialsOf(kubeconfig, file), err
	}
	conf, err = clientcmd.NewNonInteractiveClientConfig(*file, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	return conf, credentialsOf(kubeconfig, file), err
}

// usable returns what is missing in a kubeconfig. client-go's error is less clear,
// because it also tries other sources of configuration.
func usable(file *clientcmdapi.Config) error {
	switch {
	case clientcmdapi.IsConfigEmpty(file):
		return errors.New("the file is empty: expected clusters, users, contexts and a current-context")
	case file.CurrentContext == "":
		return errors.New("the file has no current-context")
	case file.Contexts[file.CurrentContext] == nil:
		return fmt.Errorf("current-context %q: expected the name of a context in the file", file.CurrentContext)
	}
	context := file.Contexts[file.CurrentContext]
	switch {
	case file.Clusters[context.Cluster] == nil:
		return fmt.Errorf("context %q: cluster %q: expected the name of a cluster in the file", file.CurrentContext, context.Cluster)
	case file.Clusters[context.Cluster].Server == "":
		return fmt.Errorf("cluster %q has no server", context.Cluster)
	}
	return nil
}

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
