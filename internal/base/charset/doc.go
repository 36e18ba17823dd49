// Package charset says which characters a text of an EMV 3-D Secure message may have, and
// writes texts in ASCII. Use [Find] to look for a character that a version does not allow, and
// [ToASCII] and [Wrap] for the names and addresses of versions that take nothing else.
//
// The rules are docs/api.md, R10 and R10a. [Table] returns them for the documentation, from the table
// that decides.
package charset
