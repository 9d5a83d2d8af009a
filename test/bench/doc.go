// Package bench measures podconfigd as its users meet it: the real binary, a real
// directory and real subscribers on its socket. Where the kubelet does the same,
// its own code runs beside it in the same benchmark, as peer=kubelet.
//
// It is a module of its own, so that what the peers need is nobody else's
// dependency. "make bench" runs it, and so does "go test -bench ." in its folder;
// docs/performance.md has the figures and says what each of them means. Nothing
// here fails because something took long.
//
// The times are those of the whole path between processes, so what else runs on the
// machine is in them. B/op and allocs/op, where they are printed, are those of the
// benchmark's own process and say nothing about what is measured.
package bench
