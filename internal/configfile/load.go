package configfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // for the format json

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// Files are the files of a configuration. Empty names no file.
type Files struct {
	// Config is the file of --config, and ConfigDir the directory of --config-dir.
	Config, ConfigDir string
	// KubeletConfig is the KubeletConfiguration of --kubelet-config.
	KubeletConfig string
}

// any reports whether there is a file.
func (f Files) any() bool { return f != Files{} }

// Flags are the values of the flags, and of their defaults.
type Flags struct {
	Daemon  daemon.Config
	Logging logsapi.LoggingConfiguration
	// Changed reports whether a flag is on the command line.
	Changed func(flag string) bool
}

// Configuration is what files and flags configure.
type Configuration struct {
	Daemon  daemon.Config
	Logging logsapi.LoggingConfiguration

	flags  *Flags
	layers []*layer
	// refused are the fields of the files that have a fault.
	refused []string
}

// Load reads the files, and returns the configuration from them and from the flags. A flag on
// the command line wins. The error has every fault of the files, and of the configuration as
// a whole. Load can be called again to reload the files.
func Load(files Files, flags *Flags) (*Configuration, error) {
	c := &Configuration{Daemon: flags.Daemon, Logging: flags.Logging, flags: flags}
	if !files.any() {
		return c, errors.Join(append(c.validateLogging(), c.Daemon.Validate())...)
	}
	layers, err := readLayers(files)
	c.layers = layers
	var errs []error
	broken := err != nil
	for _, l := range layers {
		errs = append(errs, l.errors()...)
		broken = broken || l.broken
		c.refused = append(c.refused, l.dropped...)
	}
	if broken { // what it configures is not known
		return nil, errors.Join(append(errs, err)...)
	}
	errs = append(errs, c.merge()...)
	c.applyFlags()
	errs = append(errs, c.validateLogging()...)
	errs = append(errs, c.validate()...)
	if len(errs) > 0 {
		return nil, errors.Join(c.sort(errs)...)
	}
	return c, nil
}

// Files returns the paths of the files, from the weakest to the strongest.
func (c *Configuration) Files() (paths []string) {
	for _, l := range c.layers {
		paths = append(paths, l.path)
	}
	return paths
}

func readLayers(files Files) (layers []*layer, err error) {
	if files.KubeletConfig != "" {
		layers = append(layers, readLayer("--kubelet-config", files.KubeletConfig, kubeletFormat))
	}
	if files.Config != "" {
		layers = append(layers, readLayer("--config", files.Config, ownFormat))
	}
	if files.ConfigDir != "" {
		dropins, err := dropins(files.ConfigDir)
		if err != nil {
			return layers, fmt.Errorf("--config-dir: %s: %s", files.ConfigDir, reason(err, files.ConfigDir))
		}
		for _, path := range dropins {
			layers = append(layers, readLayer("--config-dir", path, ownFormat))
		}
	}
	return layers, nil
}

// dropins returns the files of a directory and of its subdirectories, in lexical order. It skips
// what begins with two dots: in a mounted ConfigMap, these have the files that are linked beside
// them.
//
// kubelet: cmd/kubelet/app/server.go mergeKubeletConfigurations.
func dropins(dir string) (paths []string, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New("expected a directory")
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
func (c *Configuration) merge() []error {
	merged := []byte("{}")
	for _, l := range c.layers {
		patch, err := json.Marshal(l.values)
		if err == nil {
			merged, err = jsonpatch.MergePatch(merged, patch)
		}
		if err != nil {
			return []error{fmt.Errorf("%s: can't be merged: %w", l.path, err)}
		}
	}
	object, scheme, err := decode(merged)
	if err != nil {
		return []error{fmt.Errorf("can't decode the merged configuration: %w", err)}
	}
	c.Logging = object.Logging
	return c.locateAll(scheme.Convert(object, &c.Daemon, nil))
}

// decode returns the typed configuration with its defaults. The scheme lives no longer than
// the caller uses it.
func decode(data []byte) (*v1alpha1.PodConfigdConfiguration, *runtime.Scheme, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, nil, err
	}
	kind := v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.Kind)
	decoder := serializer.NewCodecFactory(scheme).UniversalDecoder(v1alpha1.SchemeGroupVersion)
	object, _, err := decoder.Decode(data, &kind, nil)
	if err != nil {
		return nil, nil, err
	}
	config, ok := object.(*v1alpha1.PodConfigdConfiguration)
	if !ok {
		return nil, nil, fmt.Errorf("expected %s, got %T", v1alpha1.Kind, object)
	}
	return config, scheme, nil
}

// isFaulty reports whether the path, or one above or below it, has a fault already.
func (c *Configuration) isFaulty(path string) bool {
	return slices.ContainsFunc(c.refused, func(refused string) bool {
		_, below := cutName(path, refused)
		_, above := cutName(refused, path)
		return below || above
	})
}
