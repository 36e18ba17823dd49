// Package randtest checks in tests that a property holds for random values. Use [Check], whose cases draw their values
// from a [T]. A case that fails is reported with its seed, and
//
//	RANDTEST_SEED=0x1f2e3d go test ./internal/peers/ranges -run TestApplyEqualsANaiveReplay
//
// runs that case alone, with the same values.
package randtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

const (
	// cases is how many cases Check runs.
	cases = 100
	// seedVariable names the variable of the environment with the seed of the one case to run.
	seedVariable = "RANDTEST_SEED"
)

// T is a test that draws random values. Methods and functions of package randtest say how.
type T struct {
	testing.TB
	*rand.Rand
}

// Check calls property with many cases, each with other values, until one fails.
func Check(t testing.TB, property func(t *T)) {
	t.Helper()
	if text, isSet := os.LookupEnv(seedVariable); isSet {
		seed, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		checkCase(t, seed, property)
		return
	}
	failedBefore := t.Failed()
	for range cases {
		checkCase(t, rand.Uint64(), property)
		if t.Failed() && !failedBefore {
			return
		}
	}
}

// checkCase runs the case of a seed. It reports the seed if the case fails, panics, or ends early by a Fatal.
func checkCase(t testing.TB, seed uint64, property func(t *T)) {
	t.Helper()
	failedBefore, isOver := t.Failed(), false
	defer func() {
		if !isOver || t.Failed() && !failedBefore {
			t.Logf("%s=%#x runs this case again", seedVariable, seed)
		}
	}()
	property(&T{TB: t, Rand: rand.New(rand.NewPCG(seed, 0))})
	isOver = true
}

// Uint64Range draws a number that is at least low and at most high.
func (t *T) Uint64Range(low, high uint64) uint64 {
	if low > high {
		panic(fmt.Sprintf("randtest: no number is at least %d and at most %d", low, high))
	}
	width := high - low
	switch t.IntN(8) {
	case 0:
		return low
	case 1:
		return high
	case 2, 3: // near low, for numbers that meet others
		return low + min(width, t.Uint64()>>(32+t.IntN(32)))
	case 4: // near high
		return high - min(width, t.Uint64()>>(32+t.IntN(32)))
	}
	if width+1 == 0 {
		return t.Uint64()
	}
	return low + t.Uint64N(width+1)
}

// IntRange draws a number that is at least low and at most high, each as often as any other.
func (t *T) IntRange(low, high int) int { return low + t.IntN(high-low+1) }

// Bool draws true or false.
func (t *T) Bool() bool { return t.IntN(2) == 0 }

// Bytes draws up to max bytes.
func (t *T) Bytes(max int) []byte {
	data := make([]byte, t.Uint64Range(0, uint64(max)))
	for i := range data {
		data[i] = byte(t.Uint64())
	}
	return data
}

// oddRunes are characters that programs forget.
var oddRunes = []rune("\x00\x01\t\n\r\v\x1f \"'&<>\\/%;=\x7f\u0080\u0085\u00a0éßŁ日😀𝄞\u0301\u200b\u202e\u2028\ufeff\ufffd\ufffe\uffff\U0010ffff")

// Text draws a text of at least low and at most high characters, in valid UTF-8.
func (t *T) Text(low, high int) string {
	runes := make([]rune, t.IntRange(low, high))
	for i := range runes {
		switch t.IntN(4) {
		case 0:
			runes[i] = oddRunes[t.IntN(len(oddRunes))]
		case 1:
			r := t.Int32N(0x110000)
			if r >= 0xd800 && r < 0xe000 { // no character, but half of one in UTF-16
				r -= 0xd800
			}
			runes[i] = r
		default:
			runes[i] = ' ' + t.Int32N('~'-' '+1)
		}
	}
	return string(runes)
}

// Digits draws a text of at least low and at most high decimal digits.
func (t *T) Digits(low, high int) string {
	text := make([]byte, t.IntRange(low, high))
	for i := range text {
		text[i] = byte('0' + t.IntN(10))
	}
	return string(text)
}

// Pick draws one of list.
func Pick[E any](t *T, list ...E) E { return list[t.IntN(len(list))] }
