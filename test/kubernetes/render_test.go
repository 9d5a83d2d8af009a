package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// The kustomizations of deploy/kubernetes, which are applied as they are.
const (
	plain   = "."
	kubeadm = "kubeadm"
)

// folder returns a folder of deploy/kubernetes.
func folder(t *testing.T, name string) string {
	t.Helper()
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "deploy", "kubernetes", name)
}

// everyComponent returns the names of all components, in an order in which they apply.
func everyComponent(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder(t, "components"))
	if err != nil {
		t.Fatal(err)
	}
	const last = "prepared-directories"
	for _, entry := range entries {
		if entry.Name() != last {
			names = append(names, entry.Name())
		}
	}
	return append(names, last)
}

// overlay returns a folder with a kustomization of the base, components and further lines.
func overlay(t *testing.T, lines string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	relative := func(name string) string {
		path, err := filepath.Rel(dir, folder(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- " + relative("base") + "\n" + lines
	if len(names) > 0 {
		text += "components:\n"
	}
	for _, name := range names {
		text += "- " + relative("components/"+name) + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// render returns what kustomize makes of a folder.
func render(t *testing.T, dir string) string {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(t.Context(), components.Kubectl(t), "kustomize", dir)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		t.Fatalf("kubectl kustomize %s: %v\n%s", dir, err, &complaints)
	}
	return out.String()
}

// rendered is what podconfigd needs of a kustomization.
type rendered struct {
	daemonSet *appsv1.DaemonSet
	config    *v1.ConfigMap
	roles     []*rbacv1.ClusterRole
	bindings  []*rbacv1.ClusterRoleBinding
	others    []string // kinds
}

// objects decodes what render returns.
func objects(t *testing.T, text string) *rendered {
	t.Helper()
	r := new(rendered)
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			r.others = append(r.others, strings.TrimSpace(fmt.Sprint(err)))
			continue
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		switch o := object.(type) {
		case *appsv1.DaemonSet:
			r.daemonSet = o
		case *v1.ConfigMap:
			r.config = o
		case *rbacv1.ClusterRole:
			r.roles = append(r.roles, o)
		case *rbacv1.ClusterRoleBinding:
			r.bindings = append(r.bindings, o)
		default:
			r.others = append(r.others, kind.Kind)
		}
	}
}
