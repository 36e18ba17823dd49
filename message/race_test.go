//go:build race

package message

// underRace says that pools drop at random, so that allocations cannot be
// counted.
const underRace = true
