// Package owners finds the owners of the pods of the node, such as the ReplicaSet and the Deployment of a pod:
//
//	r := owners.New(owners.Options{Journal: j, Client: client})
//	go r.Run(ctx)
//	chain := r.Of(pod) // replicaset/checkout-7d9f, deployment/checkout
//
// The controller of a pod is in its owner references. What is above it, and the labels, take one get of metadata for each owner,
// which all its pods share. There is no watch and no list: a change of an owner is seen when it is read again, after 30 to 45 minutes.
// Nobody waits for these requests. A change of the owner references of a pod is seen at once, see [config.PodConfig.FollowOwners].
//
// # Who can name an owner
//
// Everybody who may create pods can write any owner reference into them. So an owner is known by the whole reference and the
// namespace of the pod, and an object with another UID than in the reference is not the owner.
package owners
