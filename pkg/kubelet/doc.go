// Package kubelet finds out which kubelet runs on the node, and whether one runs there at all.
//
// The UID of a static pod depends on the minor version of the kubelet. What runs is known by it: the
// sandboxes of the runtime, their cgroups, and mirror pods. So the UIDs tell the version: it is the one
// whose rules give the UID under which the newest sandbox of a static pod runs. Package manifest
// compares each pod that it decodes with what a [Finder] expects, and the Finder makes it use the rules
// of the version that fits.
package kubelet
