// Package commandtest has the tests of what the commands of both programs have: help, manual pages and a reference page.
package commandtest
