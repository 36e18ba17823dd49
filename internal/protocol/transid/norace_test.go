//go:build !race

package transid_test

const raceEnabled = false
