package journal

import (
	_ "embed"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Texts are compressed one by one, for each is sealed under a key of its own. A dictionary has what most of them have
// in common, which else would stand in each.

//go:embed dictionary.txt
var dictionaryText []byte

// dictionary returns the dictionary of texts. To change it is to make all texts unreadable that were written before.
var dictionary = sync.OnceValue(func() *s2.Dict { return s2.MakeDict(dictionaryText, nil) })

// packText appends a compressed text.
func packText(to, text []byte) []byte {
	n := len(to)
	to = slices.Grow(to, s2.MaxEncodedLen(len(text)))
	packed := dictionary().Encode(to[n:cap(to)], text) // The buffer was made large enough for any result.
	return to[:n+len(packed)]
}

// unpackText returns a text that packText has compressed.
func unpackText(packed []byte) ([]byte, error) {
	text, err := dictionary().Decode(nil, packed)
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}
