// The functions without a body in kubelet_test.go are linked by name. That takes an
// assembly file in the package.
