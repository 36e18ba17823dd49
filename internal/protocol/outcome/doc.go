// Package outcome says in words how an authentication ended: what the result is, who is liable for fraud, what to do
// next, and which values the authorisation needs. Use [Of] for one authentication, and [Rows] for the table behind it.
//
// The rules of liability are a text, outcomes.txt. Each line is a rule with its public source. If no rule fits, the
// answer is "unknown". Nothing is guessed: the rule books of the schemes are not public, and contracts differ by
// market.
package outcome
