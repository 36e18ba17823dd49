package mpi

// schemeOf tells the scheme of a card by its first digits; pan has 12 or more.
// There is one scheme per card here: v1 knows no co-badging.
func schemeOf(pan string) string {
	two, four := pan[:2], pan[:4]
	switch {
	case pan[0] == '4':
		return "visa"
	case "51" <= two && two <= "55", "2221" <= four && four <= "2720":
		return "mastercard"
	case two == "34", two == "37":
		return "amex"
	case two == "35":
		return "jcb"
	case two == "62":
		return "upi"
	case two == "36", two == "38", two == "65", four == "6011":
		return "protectbuy"
	case four == "5019":
		return "sbn"
	}
	return "standin"
}
