// Package systemd connects the daemon to the service manager that started it: notifications and the watchdog
// (sd_notify), and sockets that it passed (socket activation). Without a service manager, there is nothing to connect to.
package systemd
