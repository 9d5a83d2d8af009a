// Package cri implements the container runtime of package pleg with CRI.
package cri
