//go:build !race

package message

const underRace = false
