package journal

import "bytes"

// Most texts have nothing to scrub. So it is asked first, in one pass that allocates nothing, whether there
// is anything. Each of these functions goes by the forms in scrub.go. Where isCleanText and isCleanMessage
// are in doubt, they say no.

// isCleanMessage reports whether ScrubMessage would leave a message as it is.
func isCleanMessage(masked []byte) bool {
	var name []byte
	for i := 0; i < len(masked); i++ {
		switch masked[i] {
		case ' ', '\t', '\r', '\n':
			return false // it would go
		case '"':
			n := bytes.IndexByte(masked[i+1:], '"')
			if n < 0 {
				return false
			}
			text := masked[i+1 : i+1+n]
			if bytes.IndexByte(text, '\\') >= 0 {
				return false
			}
			i += n + 1
			switch {
			case i+1 < len(masked) && masked[i+1] == ':':
				name = text
			case freeTexts[string(name)] && !isCleanText(text), hasDigitRun(text):
				return false
			}
		}
	}
	return true
}

// isCleanText reports whether ScrubText would leave a text as it is, whichever words are known.
func isCleanText[T string | []byte](text T) bool {
	begin := 0 // of a word
	for i := range len(text) {
		switch c := text[i]; {
		case c == '@', c == '%', c == '&', c == '\\':
			return false
		case !isWordByte(c):
			if !isCleanWord(text, begin, i) {
				return false
			}
			begin = i + 1
		}
	}
	return isCleanWord(text, begin, len(text)) && !hasDigitRun(text)
}

// isWordByte reports whether a byte may be in a word, as wordForm knows them.
func isWordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '+' || c == '/' || c == '_' ||
		c == '=' || c == '-'
}

// isCleanWord reports whether a word is short, or a UUID.
func isCleanWord[T string | []byte](text T, begin, end int) bool {
	return end-begin < 20 || end-begin == uuidLen && isUUIDAt(text, begin)
}

// hasDigitRun reports whether digitsForm finds something in a text, beside the UUIDs in it.
func hasDigitRun[T string | []byte](text T) bool {
	digits, gap := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case isUUIDAt(text, i):
			digits = 0
			i += uuidLen - 1
		case '0' <= c && c <= '9':
			if digits++; digits == 12 {
				return true
			}
			gap = 0
		case gap == 2:
			digits = 0
		case c == ' ', c == '-', c == '.', c == '/', c == '_', c == ':', c == ',':
			gap++
		case c == "\u00a0"[0] && i+1 < len(text) && text[i+1] == "\u00a0"[1]:
			gap++
			i++
		default:
			digits = 0
		}
	}
	return false
}

// uuidLen is how many characters a UUID has.
const uuidLen = 36

// isUUIDAt reports whether a UUID begins at i.
func isUUIDAt[T string | []byte](text T, i int) bool {
	if len(text)-i < uuidLen || text[i+8] != '-' || text[i+13] != '-' || text[i+18] != '-' || text[i+23] != '-' {
		return false
	}
	for k := range uuidLen {
		c := text[i+k]
		isHex := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
		if !isHex && k != 8 && k != 13 && k != 18 && k != 23 {
			return false
		}
	}
	return true
}
