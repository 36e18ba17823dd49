// Package scheme has the one list of card schemes, and what is public of their own rules.
// Use [Names], [IsWord], [Number] and [OfCard] for the list, and [Public] for the rules of a scheme:
// [Sheet.Check] finds out in what an AReq does not agree with them, and [Sheet.Meaning] knows the
// codes that a scheme defines itself.
//
// The rules are a text, profiles.txt, in which each line is a fact with its sources, its
// certainty and, if they are known, the first and the last day on which it holds. This package
// reads the text and applies it; callers say what time it is. What to do about a finding is
// decided by the engine and the merchant's settings. Rules that are not public are missing,
// so a directory server may refuse a request in which Check finds nothing.
//
// Operators add rules of their own: [ReadOwn] reads their file, and [NewSheet] puts it besides the public rules.
// [Sheet.Check] tells in what a request does not agree, with the day from which on each rule counts.
// [Sheet.Requirements] tells what a scheme asks for, without a request.
package scheme
