// Package scheme has the one list of card schemes, and what is public of their own rules.
// Use [Names], [IsWord], [Number] and [OfCard] for the list, [Check] to find out what an
// AReq lacks for its scheme, and [Meaning] for the codes that a scheme defines itself.
//
// The rules are a text, profiles.txt, in which each line is a fact with its source and its
// certainty. This package reads the text and applies it. What to do about a finding is
// decided by the engine and the merchant's settings. Rules that are not public are missing,
// so a directory server may refuse a request in which Check finds nothing.
package scheme
