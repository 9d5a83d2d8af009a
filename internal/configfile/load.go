package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	_ "k8s.io/component-base/logs/json/register" // for the format json
	kjson "sigs.k8s.io/json"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/option"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// Files are the files of a configuration. Empty names no file.
type Files struct {
	// Config is the file of --config, and ConfigDir the directory of --config-dir.
	Config, ConfigDir string
	// KubeletConfig is the KubeletConfiguration of --kubelet-config, and KubeletConfigDir the directory of
	// --kubelet-config-dir.
	KubeletConfig, KubeletConfigDir string
}

// any reports whether there is a file.
func (f Files) any() bool { return f != Files{} }

// Flags are the values of the flags, and of their defaults.
type Flags struct {
	daemon.Config
	// Changed reports whether a flag is on the command line.
	Changed func(flag string) bool
}

// Configuration is what files and flags configure.
type Configuration struct {
	daemon.Config

	files Files
	flags *Flags
	// layers are the files. The first ones, ofKubelet of them, are those of the kubelet.
	layers    []*layer
	ofKubelet int
	// faults are the faults of the files and of the log's configuration. refused are the faulty fields.
	faults  []error
	refused []string
}

// Load reads the files, and returns the configuration from them and from the flags. A flag on
// the command line wins. The error has every fault of the files that can't be read as a configuration. Load can be
// called again to reload the files.
func Load(files Files, flags *Flags) (*Configuration, error) {
	c := &Configuration{files: files, flags: flags}
	kubelet, err := readKubeletLayers(files)
	own, ownErr := readOwnLayers(files)
	if err := c.load(kubelet, own, errors.Join(err, ownErr)); err != nil {
		return nil, err
	}
	return c, nil
}

// Follow reads the files of the kubelet again. If they are those of c, it returns nil. Otherwise, it returns the configuration
// with them, and with the other files and the flags of c. The configuration can be compared also if there is an error.
func (c *Configuration) Follow() (next *Configuration, err error) {
	if c.files.KubeletConfig == "" && c.files.KubeletConfigDir == "" {
		return nil, nil //nolint:nilnil // nothing has changed
	}
	kubelet, err := readKubeletLayers(c.files)
	next = &Configuration{files: c.files, flags: c.flags, layers: kubelet, ofKubelet: len(kubelet)}
	if err == nil && next.SameKubelet(c) {
		return nil, nil //nolint:nilnil // nothing has changed
	}
	err = next.load(kubelet, c.layers[c.ofKubelet:], err)
	return next, err
}

// SameKubelet reports whether both have the same files of the kubelet, with the same contents.
func (c *Configuration) SameKubelet(other *Configuration) bool {
	return slices.EqualFunc(c.layers[:c.ofKubelet], other.layers[:other.ofKubelet], func(a, b *layer) bool {
		return a.path == b.path && a.failure == b.failure && bytes.Equal(a.text.Data, b.text.Data)
	})
}

// load makes the configuration of the layers and of the flags. err is the error of listing the files.
func (c *Configuration) load(kubelet, own []*layer, err error) error {
	c.Config, c.layers, c.ofKubelet = c.flags.Config, slices.Concat(kubelet, own), len(kubelet)
	c.PodConfigdConfiguration = *c.flags.DeepCopy()
	if c.files.any() {
		if err := c.apply(err); err != nil {
			return err
		}
	}
	c.faults = append(c.faults, c.validateLogging()...)
	return nil
}

func (c *Configuration) apply(err error) error {
	broken := err != nil
	for _, l := range c.layers {
		c.faults = append(c.faults, l.errors()...)
		broken = broken || l.broken
		c.refused = append(c.refused, l.dropped...)
	}
	if broken { // what it configures is not known
		return errors.Join(append(c.faults, err)...)
	}
	if err := c.merge(); err != nil {
		return err
	}
	for i := range v1alpha1.Options {
		if o := &v1alpha1.Options[i]; c.changed(o.Flag) {
			o.Copy(&c.PodConfigdConfiguration, &c.flags.PodConfigdConfiguration)
		}
	}
	c.dropUnusedHeader()
	c.requireParts()
	return nil
}

// dropUnusedHeader drops a header of a KubeletConfiguration if nothing gives a URL: the kubelet ignores it.
func (c *Configuration) dropUnusedHeader() {
	own := c.changed("manifest-url-header")
	for _, l := range c.layers {
		_, is := l.values["staticPodURLHeader"]
		own = own || is && l.want.fields == nil
	}
	if c.StaticPodURL == "" && !own {
		c.StaticPodURLHeader = nil
	}
}

// Check returns every fault of the files and of the configuration as a whole.
func (c *Configuration) Check() error { return c.Locate(c.Validate()) }

// Faulty reports whether the files have a fault. The daemon must not be made then.
func (c *Configuration) Faulty() bool { return len(c.faults) > 0 }

// Locate returns the error of the daemon for the configuration, together with the faults of the files: each with the
// file and the line that it comes from.
func (c *Configuration) Locate(err error) error {
	errs := append(slices.Clone(c.faults), c.located(err)...)
	return errors.Join(c.sort(errs)...)
}

func (c *Configuration) changed(flag string) bool { return flag != "" && c.flags.Changed(flag) }

// Files returns the paths of the files, from the weakest to the strongest.
func (c *Configuration) Files() (paths []string) {
	for _, l := range c.layers {
		paths = append(paths, l.path)
	}
	return paths
}

func readKubeletLayers(files Files) (layers []*layer, err error) {
	return readLayers("--kubelet-config", files.KubeletConfig, "--kubelet-config-dir", files.KubeletConfigDir, kubeletFormat)
}

func readOwnLayers(files Files) (layers []*layer, err error) {
	return readLayers("--config", files.Config, "--config-dir", files.ConfigDir, ownFormat)
}

// readLayers reads a file and the drop-ins that are merged over it. Empty paths name nothing.
func readLayers(fileFlag, file, dirFlag, dir string, want format) (layers []*layer, err error) {
	if file != "" {
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			return nil, fmt.Errorf("%s: %s: expected a file: for a directory, use %s", fileFlag, file, dirFlag)
		}
		layers = append(layers, readLayer(fileFlag, file, want))
	}
	if dir == "" {
		return layers, nil
	}
	paths, err := dropins(dir)
	switch {
	case errors.Is(err, errNoDirectory):
		return layers, fmt.Errorf("%s: %s: expected a directory: for a file, use %s", dirFlag, dir, fileFlag)
	case err != nil:
		return layers, fmt.Errorf("%s: %s: %s", dirFlag, dir, reason(err, dir))
	}
	want.dropin = true
	for _, path := range paths {
		layers = append(layers, readLayer(dirFlag, path, want))
	}
	return layers, nil
}

var errNoDirectory = errors.New("expected a directory")

// dropins returns the files of a directory and of its subdirectories, in lexical order. It skips names that begin with
// two dots: in a mounted ConfigMap, such directories have the targets of the links beside them.
//
// kubelet: cmd/kubelet/app/server.go mergeKubeletConfigurations.
func dropins(dir string) (paths []string, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errNoDirectory
	}
	top := dir + string(filepath.Separator) // follows a link
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != top && entry.IsDir() && strings.HasPrefix(entry.Name(), ".."):
			return filepath.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".conf" && !strings.HasPrefix(entry.Name(), ".."):
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

// merge merges the layers over the defaults.
func (c *Configuration) merge() error {
	merged := []byte("{}")
	for _, l := range c.layers {
		patch, err := json.Marshal(l.values)
		if err == nil {
			merged, err = jsonpatch.MergePatch(merged, patch)
		}
		if err != nil {
			return fmt.Errorf("%s: can't be merged: %w", l.path, err)
		}
	}
	c.PodConfigdConfiguration = v1alpha1.PodConfigdConfiguration{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(merged, &c.PodConfigdConfiguration); err != nil {
		return fmt.Errorf("can't decode the merged configuration: %w", err)
	}
	v1alpha1.SetDefaults_PodConfigdConfiguration(&c.PodConfigdConfiguration)
	return nil
}

// requireParts refuses each item of fileSources and httpSources without a name or without a place. The
// daemon would take a source without a name for the source of staticPodPath or staticPodURL.
func (c *Configuration) requireParts() {
	require := func(list string, i int, name, value, expected string) {
		if value == "" {
			path := fmt.Sprintf("%s[%d].%s", list, i, name)
			c.refused = append(c.refused, path)
			c.faults = append(c.faults, c.locateInFile(path, "required: expected "+expected))
		}
	}
	for i, source := range c.FileSources {
		require("fileSources", i, "name", source.Name, "the name of the source")
		require("fileSources", i, "path", source.Path, "a directory or a manifest file")
	}
	for i := range c.HTTPSources {
		require("httpSources", i, "name", c.HTTPSources[i].Name, "the name of the source")
		require("httpSources", i, "url", c.HTTPSources[i].URL, "the URL of a manifest")
	}
}

// isFaulty reports whether the path, or one above or below it, has a fault already.
func (c *Configuration) isFaulty(path string) bool {
	return slices.ContainsFunc(c.refused, func(refused string) bool {
		_, below := option.Below(path, refused)
		_, above := option.Below(refused, path)
		return below || above
	})
}

// kubeletFormat is a KubeletConfiguration. The fields that podconfigd has under the same name
// with the same meaning are used.
var kubeletFormat = format{apiVersion: "kubelet.config.k8s.io/v1beta1", kind: "KubeletConfiguration", fields: []string{
	"staticPodPath", "staticPodURL", "staticPodURLHeader", "fileCheckFrequency", "httpCheckFrequency", "syncFrequency",
	"containerRuntimeEndpoint", "eventRecordQPS", "eventBurst",
}}
