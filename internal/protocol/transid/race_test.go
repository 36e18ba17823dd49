//go:build race

package transid_test

const raceEnabled = true
