// Package browser drives the page in a real browser, Chromium, through its protocol for developers, against a
// real daemon: the first paint, live changes, a kill and a restart, hostile manifests, access rules,
// 5,000 pods, 200 updates a second, a narrow window, the keyboard, and the rules of axe-core.
//
// The module is separate because podconfigd must not get its dependencies, and it is not part of
// "make test", because its download is large. "make browser" installs Chromium and axe-core, and sets
// PODCONFIGD and PODCONFIGCTL to the programs and AXE to the script of axe-core.
package browser
