package cardnumber

// isClean reports whether Scrub would leave a text as it is. It reads the text once and allocates nothing. Where it is
// in doubt, it says no. It goes through the text as scrub does.
func isClean[T string | []byte](text T) bool {
	for i := 0; i < len(text); {
		switch {
		case !isWordByte(text[i]):
			i++
		case isDigit(text[i]):
			if mayBeHex(text, i) {
				return false
			}
			end := endOfRun(text, i)
			if end-i >= minCardDigits && !partOfUUID(text, i, end) && mayHaveNumber(text, i, end) {
				return false
			}
			i = end
		default:
			end := endOfWord(text, i)
			if c := text[i]; (c == 'M' || c == 'N' || c == 'O') && end-i >= minCodedLen {
				return false // digits in base64 begin so
			}
			for i < end && !isDigit(text[i]) {
				i++
			}
		}
	}
	return true
}

// mayBeHex reports whether the word at i may be a card number in hexadecimal.
func mayBeHex[T string | []byte](text T, i int) bool {
	switch text[i] {
	case '3', '0', '2', '5': // a digit or a separator begins so
	default:
		return false
	}
	return endOfWord(text, i)-i >= minCodedLen
}

// mayHaveNumber reports whether a card number may begin and end with groups of the run text[from:end].
func mayHaveNumber[T string | []byte](text T, from, end int) bool {
	for i := from; i < end; i++ {
		if !isDigit(text[i]) || i > from && isDigit(text[i-1]) {
			continue
		}
		if mayBeHex(text, i) || beginsNumber(text, i, end) {
			return true
		}
	}
	return false
}

// beginsNumber reports whether a card number begins at i, and ends with a group of digits before end.
func beginsNumber[T string | []byte](text T, i, end int) bool {
	var digits [maxCardDigits]byte
	n := 0
	for ; i < end; i++ {
		if !isDigit(text[i]) {
			continue
		}
		if n == maxCardDigits {
			return false
		}
		digits[n] = text[i]
		n++
		if isLast := i+1 == end || !isDigit(text[i+1]); isLast && isCardNumber(digits[:n]) {
			return true
		}
	}
	return false
}

// Has reports whether a run of digits in a text contains this number. Between the digits there may be what [Scrub]
// allows. It does not look at the check digit.
func Has[T string | []byte](text T, number string) bool {
	for i := 0; i < len(text); {
		if !isDigit(text[i]) {
			i++
			continue
		}
		end := endOfRun(text, i)
		for ; end-i >= len(number); i++ {
			if isDigit(text[i]) && hasAt(text, i, end, number) {
				return true
			}
		}
		i = end
	}
	return false
}

// hasAt reports whether the digits of text[i:end] begin with a number.
func hasAt[T string | []byte](text T, i, end int, number string) bool {
	n := 0
	for ; i < end && n < len(number); i++ {
		if !isDigit(text[i]) {
			continue
		}
		if text[i] != number[n] {
			return false
		}
		n++
	}
	return n == len(number)
}
