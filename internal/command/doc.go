// Package command has what the commands of both programs share: how a program runs its root command, help,
// arguments, the errors of flags, objects as output, and the version.
//
//	func main() { os.Exit(command.Main(newRootCommand())) }
package command
