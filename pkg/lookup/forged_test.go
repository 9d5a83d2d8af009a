package lookup

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Anybody who may create pods can make a pod with the annotation of a mirror pod. Only the one with the name of the static pod is
// its mirror pod. Others neither take its identity nor its status.
func TestAForgedMirrorPod(t *testing.T) {
	onNode(t, false, func(n *node) {
		static := pod("web")
		static.Status.Phase = v1.PodPending
		forged := mirrorOf(pod("web", "10.0.0.66"), "forged")
		forged.Namespace = "tenant"
		for _, order := range [][]string{{"static", "mirror", "forged"}, {"forged", "static", "mirror"}, {"mirror", "forged", "static"}} {
			mirror := mirrorOf(pod("web", "10.0.0.9"), "mirror")
			sources := map[string]string{"static": "file", "mirror": "api", "forged": "api"}
			pods := map[string]*v1.Pod{"static": static, "mirror": mirror, "forged": forged}
			for _, which := range order {
				n.deliver(config.ADD, sources[which], pods[which])
			}
			check := func(q Query, want string) {
				t.Helper()
				got := "-"
				if answer, err := n.Find(n.t.Context(), nil, &q); err == nil {
					p := answer.Pods[0]
					got = p.Namespace + " " + p.UID + " " + p.Phase
				}
				if got != want {
					t.Errorf("%v: %+v: got %q, want %q", order, q, got, want)
				}
			}
			check(Query{PodUID: "web"}, "default web Running")
			check(Query{PodIP: "10.0.0.9"}, "default web Running")
			check(Query{PodIP: "10.0.0.66"}, "tenant forged Running")
			check(Query{PodUID: "forged"}, "tenant forged Running")
			n.deliver(config.REMOVE, "api", mirror)
			check(Query{PodUID: "web"}, "default web Pending")
			check(Query{PodIP: "10.0.0.66"}, "tenant forged Running")
			n.deliver(config.REMOVE, "file", static)
			check(Query{PodUID: "web"}, "default web Running") // the removed one, with the last status of its mirror pod
			n.deliver(config.REMOVE, "api", forged)
			check(Query{PodUID: "web"}, "default web Running")
			check(Query{PodUID: "forged"}, "tenant forged Running")
			check(Query{PodIP: "10.0.0.66"}, "tenant forged Running")
			<-time.After(2 * retention)
		}
	})
}

// The runtime knows the name of a pod that no source has. A pod with another name is not its mirror pod.
func TestAForgedMirrorPodOfAnOrphan(t *testing.T) {
	onNode(t, true, func(n *node) {
		n.runtime.set("web", "web", "s1 - running", "c1 app running")
		forged := mirrorOf(pod("web", "10.0.0.66"), "forged")
		forged.Namespace = "tenant"
		n.deliver(config.ADD, "api", forged)
		n.find(Query{ContainerID: "none", Wait: time.Second}) // lists
		for _, q := range []Query{{ContainerID: "c1"}, {PodUID: "web"}} {
			answer, err := n.Find(n.t.Context(), nil, &q)
			if err != nil || answer.Pods[0].Source != "" || answer.Pods[0].Namespace != "default" || answer.Pods[0].UID != "web" {
				t.Errorf("%+v: %+v, %v", q, answer, err)
			}
		}
		n.deliver(config.ADD, "api", mirrorOf(pod("web", "10.0.0.9"), "mirror"))
		for _, q := range []Query{{ContainerID: "c1"}, {PodUID: "web"}} {
			answer, err := n.Find(n.t.Context(), nil, &q)
			if err != nil || answer.Pods[0].UID != "mirror" {
				t.Errorf("with its mirror pod, %+v: %+v, %v", q, answer, err)
			}
		}
	})
}
