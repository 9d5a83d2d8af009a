// Command probe asks a daemon with every kind of client, and prints what it got. The tests compile it
// in this version, and with the packages of an earlier version.
//
//	probe SOCKET                          asks once
//	probe SOCKET http                     asks once, and not over gRPC
//	probe SOCKET follow [INSTANCE SINCE]  prints the updates of the stream, from there on, until it is killed
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigdv1alpha1 "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	switch {
	case len(args) == 0:
		return errors.New("the socket is missing")
	case len(args) == 1:
		return ask(ctx, args[0])
	case args[1] == "http":
		return askHTTP(ctx, client.New(args[0]))
	}
	opts := client.Options{}
	if len(args) == 4 {
		since, err := strconv.ParseInt(args[3], 10, 64)
		if err != nil {
			return err
		}
		opts.Instance, opts.Since = args[2], since
	}
	return follow(ctx, args[0], opts)
}

func ask(ctx context.Context, socket string) error {
	c := client.New(socket)
	return errors.Join(askHTTP(ctx, c), askGRPC(ctx, socket))
}

// follow prints each update, as the operation and the names of its pods.
func follow(ctx context.Context, socket string, opts client.Options) error {
	for u, err := range client.New(socket).Updates(ctx, opts) {
		if err != nil {
			return err
		}
		words := []string{string(u.Op)}
		for _, p := range u.Pods {
			words = append(words, p.Name)
		}
		if u.Reset {
			words = append(words, "reset")
		}
		fmt.Println(strings.Join(words, " "))
	}
	return nil
}

func askHTTP(ctx context.Context, c *client.Client) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("status: %s ready=%t pods=%d sources=%d\n", status.NodeName, status.Ready, status.Pods, len(status.Sources))
	list, err := c.Pods(ctx)
	if err != nil {
		return err
	}
	for i := range list.Items {
		p := &list.Items[i]
		fmt.Printf("pods: %s\n", p.Name)
		answer, err := c.Lookup(ctx, client.LookupQuery{PodUID: string(p.UID)})
		if err != nil {
			return err
		}
		fmt.Printf("lookup: %s of %s\n", answer.Pods[0].Name, answer.Pods[0].Source)
	}
	for record, err := range c.History(ctx, client.HistoryOptions{}) {
		if err != nil {
			return err
		}
		if record.Name != "" {
			fmt.Printf("history: %s\n", record.Name)
		}
	}
	for u, err := range c.Updates(ctx, client.Options{}) {
		if err != nil {
			return err
		}
		for _, p := range u.Pods {
			fmt.Printf("stream: %s %s\n", u.Op, p.Name)
		}
		if u.InitialSyncComplete {
			break
		}
	}
	return nil
}

func askGRPC(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ours := podconfigdv1alpha1.NewPodConfigClient(conn)
	status, err := ours.Status(ctx, &podconfigdv1alpha1.StatusRequest{})
	if err != nil {
		return err
	}
	fmt.Printf("grpc status: %s ready=%t sources=%d\n", status.GetNodeName(), status.GetReady(), len(status.GetSources()))
	list, err := ours.List(ctx, &podconfigdv1alpha1.ListRequest{})
	if err != nil {
		return err
	}
	if err := show("grpc list", list.GetPods()); err != nil {
		return err
	}
	stream, err := ours.Watch(ctx, &podconfigdv1alpha1.WatchRequest{})
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	fmt.Printf("grpc watch: %s\n", first.GetOp())
	theirs, err := podsv1alpha1.NewPodsClient(conn).ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	if err != nil {
		return err
	}
	return show("pods api", theirs.GetPods())
}

func show(what string, pods [][]byte) error {
	for _, data := range pods {
		var pod v1.Pod
		if err := pod.Unmarshal(data); err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", what, pod.Name)
	}
	return nil
}
