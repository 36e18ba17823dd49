package cardnumber

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// ScrubJSON returns JSON with "***" in the place of each card number in its texts, names and numbers, as [Scrub] has
// it. JSON without one is returned as it is, and what is no JSON as Scrub returns it.
func ScrubJSON(text []byte) []byte {
	var b bytes.Buffer
	isChanged := false
	in := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	out := jsontext.NewEncoder(&b, jsontext.AllowDuplicateNames(true))
	for {
		token, err := in.ReadToken()
		if err == io.EOF {
			break
		}
		if err == nil {
			if kind := token.Kind(); kind == '"' || kind == '0' {
				if was := token.String(); IsIn(was) {
					token, isChanged = jsontext.String(Scrub(was)), true
				}
			}
			err = out.WriteToken(token)
		}
		if err != nil {
			return []byte(Scrub(string(text)))
		}
	}
	if !isChanged {
		return text
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
