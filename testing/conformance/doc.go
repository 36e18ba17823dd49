// Package conformance shows from outside that a 3DS Server does what the protocol asks of it. Set the fields of a
// [Suite], call [Suite.Run], and give the results to [NewReport]. The suite starts the server with directory servers
// that it controls, and runs one check for each obligation. cmd/threeds-conform is the suite as a program.
//
// The obligations are the rows of rows.txt, by id. A row is shown by a check of
// this package, by a unit test that carries its id, by a document, or it does
// not apply, with the reason; TestRows holds the list complete.
//
// A check changes one thing in an otherwise legal exchange and looks at what the
// server does. The package shares no code with the server: it has messages,
// certificates, directory servers and judgement of its own, so that a mistake
// of the server is not also one of the suite.
package conformance
