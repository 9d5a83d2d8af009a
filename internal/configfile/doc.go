// Package configfile loads the configuration of the daemon from files and flags.
//
//	config, err := configfile.Load(configfile.Files{Config: "podconfigd.yaml"}, flags)
//	if err == nil {
//		err = config.Check()
//	}
//
// A file gives a layer of values. Layers are merged as the kubelet merges its drop-ins: with
// a JSON merge patch, which merges objects and replaces lists. From the weakest to the
// strongest, the layers are: the defaults, the file of --kubelet-config, the file of --config,
// the files of --config-dir in lexical order, and the flags on the command line.
//
// Load keeps nothing of the files but the configuration and the lines of its values.
package configfile
