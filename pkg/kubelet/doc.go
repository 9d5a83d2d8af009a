// Package kubelet finds out which version of the kubelet runs on the node, and whether one runs there at all:
//
//	f := kubelet.New(kubelet.Options{Decoder: decoder, List: runtime.Pods, Presence: kubelet.PresenceAuto})
//	f.Ask(ctx)
//	go f.Run(ctx)
//	status := f.Status()
//
// The UID of a static pod depends on the minor version of the kubelet, and names the pod in the sandboxes of the runtime, in
// their cgroups and in the mirror pod. So the UIDs show the version: it is the one whose rules give the UID of the newest
// sandbox of a static pod. Package manifest reports each pod that it decodes to a [Finder]. The Finder makes it use the rules
// of the version that fits.
package kubelet
