package configfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// parsed returns the options of the flags.
func parsed(t *testing.T, args ...string) (*daemon.Config, error) {
	t.Helper()
	o, flags := flagSet()
	if err := flags.Parse(append(args, "--socket=s")); err != nil {
		return nil, err
	}
	loaded, err := o.Check(flags)
	return &loaded.Config, err
}

// What comes before the first "=" is a name only if it is a DNS label.
func TestNamesOfSources(t *testing.T) {
	for value, want := range map[string][2]string{
		"/etc/m":                       {"", "/etc/m"},
		"a=/etc/m":                     {"a", "/etc/m"},
		"a=b=c":                        {"a", "b=c"},
		"./a=b":                        {"", "./a=b"},
		"A=b":                          {"", "A=b"},
		"a_b=c":                        {"", "a_b=c"},
		"=b":                           {"", "=b"},
		"-a=b":                         {"", "-a=b"},
		"http://h/?x=y":                {"", "http://h/?x=y"},
		"a=http://h/?x=y":              {"a", "http://h/?x=y"},
		"h:80/?x=y":                    {"", "h:80/?x=y"},
		strings.Repeat("a", 63) + "=b": {strings.Repeat("a", 63), "b"},
		strings.Repeat("a", 64) + "=b": {"", strings.Repeat("a", 64) + "=b"},
	} {
		t.Run(value, func(t *testing.T) {
			if name, place := config.SplitSource(value); name != want[0] || place != want[1] {
				t.Errorf("%q and %q", name, place)
			}
		})
	}
}

func TestRepeatedSources(t *testing.T) {
	o, err := parsed(t, "--pod-manifest-path=b=/b", "--pod-manifest-path=/m", "--pod-manifest-path=a=/a",
		"--manifest-url=x=https://h/?x=y", "--manifest-url-header=A:b", "--manifest-url-ca-file=ca", "--manifest-url-token-file=token")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]v1alpha1.FileSource{{Name: "b", Path: "/b"}, {Name: "a", Path: "/a"}}, o.FileSources); diff != "" || o.StaticPodPath != "/m" {
		t.Errorf("path %q, %s", o.StaticPodPath, diff)
	}
	want := []v1alpha1.HTTPSource{{Name: "x", URL: "https://h/?x=y", Header: map[string][]string{"A": {"b"}}, CAFile: "ca", TokenFile: "token"}}
	if diff := cmp.Diff(want, o.HTTPSources); diff != "" || o.StaticPodURL != "" {
		t.Errorf("URL %q, %s", o.StaticPodURL, diff)
	}
}

func TestRepeatedSourcesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		want string
		args []string
	}{
		"no name, twice": {"a second PATH without a name: give it one, as NAME=PATH", []string{"--pod-manifest-path=/a", "--pod-manifest-path=/b"}},
		"a name twice":   {`a second PATH with the name "x": give it another name`, []string{"--pod-manifest-path=x=/a", "--pod-manifest-path=x=/b"}},
		"no URL":         {"source http:x has no URL", []string{"--manifest-url=x="}},
		"other scheme":   {`--manifest-url: source http:x: manifest URL "ftp://h/": expected http or https`, []string{"--manifest-url=x=ftp://u:p@h/?token=t"}},
		"no key":         {"--manifest-url-cert-file: requires --manifest-url-key-file", []string{"--manifest-url=x=http://h/", "--manifest-url-cert-file=c"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parsed(t, c.args...); err == nil || !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
