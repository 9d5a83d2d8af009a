package apiserver

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// reading reads files, and takes a fingerprint of them. An unreadable file counts as such.
type reading struct {
	names []string
	hash  hash.Hash
}

// fingerprint identifies the contents of files.
type fingerprint [sha256.Size]byte

func newReading() *reading { return &reading{hash: sha256.New()} }

func (r *reading) read(name string) ([]byte, error) {
	data, err := smallfile.Read(name)
	r.names = append(r.names, name)
	fmt.Fprintf(r.hash, "%q %d %v\n", name, len(data), err)
	r.hash.Write(data)
	return data, err
}

func (r *reading) fingerprint() fingerprint { return fingerprint(r.hash.Sum(nil)) }

// fingerprintOf returns the fingerprint of the files.
func fingerprintOf(names []string) fingerprint {
	r := newReading()
	for _, name := range names {
		_, _ = r.read(name) // an error is part of the fingerprint
	}
	return r.fingerprint()
}

// fill reads a file that is named, unless its content is known, and clears the name. client-go would start a goroutine
// that reads it again, and that can't be stopped. A FIFO would block it.
func (r *reading) fill(name *string, data *[]byte) (err error) {
	if *name != "" && len(*data) == 0 {
		if *data, err = r.read(*name); err == nil && len(*data) == 0 { // as long as it is being written
			err = fmt.Errorf("%s: the file is empty", *name)
		}
	}
	*name = ""
	return err
}

// fillConfig reads the files that a usable kubeconfig names. It does not replace the file of the token: client-go reads
// it again for later requests, and has the better error if it is missing.
func (r *reading) fillConfig(file *clientcmdapi.Config) error {
	context := file.Contexts[file.CurrentContext]
	cluster, user := file.Clusters[context.Cluster], cmp.Or(file.AuthInfos[context.AuthInfo], &clientcmdapi.AuthInfo{})
	err := cmp.Or(
		r.fill(&cluster.CertificateAuthority, &cluster.CertificateAuthorityData),
		r.fill(&user.ClientCertificate, &user.ClientCertificateData),
		r.fill(&user.ClientKey, &user.ClientKeyData),
	)
	if err == nil && user.TokenFile != "" {
		_, err = smallfile.Read(user.TokenFile)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

func configName(kubeconfig string) string {
	if kubeconfig == "" {
		return "in-cluster configuration"
	}
	return "kubeconfig " + kubeconfig
}

// loadConfig reads a kubeconfig and the files that it names, or the pod's service account if the path is empty. It
// also returns the name of the credentials.
func (r *reading) loadConfig(kubeconfig string) (conf *rest.Config, credentials string, err error) {
	if kubeconfig == "" {
		if conf, err = rest.InClusterConfig(); err == nil {
			err = r.fill(&conf.CAFile, &conf.CAData)
		}
		return conf, "service account token " + serviceAccountToken, err
	}
	data, err := r.read(kubeconfig)
	if err != nil {
		return nil, "", err
	}
	file, err := clientcmd.Load(data)
	if err != nil {
		return nil, "", err
	}
	// As in clientcmd.LoadFromFile, relative paths are relative to the kubeconfig.
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
	credentials = credentialsOf(kubeconfig, file)
	if err := r.fillConfig(file); err != nil {
		return nil, credentials, err
	}
	conf, err = clientcmd.NewNonInteractiveClientConfig(*file, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	return conf, credentials, err
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
