// Package outcome says in words how an authentication ended: what the result is, who is liable
// for fraud, what to do next, and which values the authorisation wants. Use [Of] for one
// authentication, and [Rows] for the table behind it.
//
// Who is liable is a text, outcomes.txt, in which each line is a rule with its public source.
// Where no rule fits, the answer is "unknown". Nothing is guessed: the rule books of the
// schemes are not public, and contracts differ by market.
package outcome
