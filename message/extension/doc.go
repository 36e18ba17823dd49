// Package extension knows message extensions of EMV 3-D Secure whose content is public: it
// builds them from plain fields, checks those that somebody else wrote, and explains them.
//
// Use [Check] for the extensions of a message and [Describe] to explain them. [Build] is for
// servers: it turns what a requestor wrote in the member "extensions" into messageExtension.
// [All] returns the extensions with their tables.
//
// Each extension has a [message.Table] per message that carries it, as the messages have. An
// extension that is not in the list, or whose version is not, passes as it is: nothing here
// reports it.
//
// The package does no I/O and has no state.
package extension
