package sandbox

import (
	"strconv"
	"strings"
)

// currencies are the codes of ISO 4217 that the pages can write in letters:
// number and letters in turn. Others are shown as the number.
const currencies = `
008ALL 012DZD 032ARS 036AUD 044BSD 048BHD 050BDT 051AMD 052BBD 060BMD 064BTN 068BOB 072BWP 084BZD 090SBD 096BND
104MMK 108BIF 116KHR 124CAD 132CVE 136KYD 144LKR 152CLP 156CNY 170COP 174KMF 188CRC 192CUP 203CZK 208DKK 214DOP
222SVC 230ETB 232ERN 238FKP 242FJD 262DJF 270GMD 292GIP 320GTQ 324GNF 328GYD 332HTG 340HNL 344HKD 348HUF 352ISK
356INR 360IDR 364IRR 368IQD 376ILS 388JMD 392JPY 398KZT 400JOD 404KES 408KPW 410KRW 414KWD 417KGS 418LAK 422LBP
426LSL 430LRD 434LYD 446MOP 454MWK 458MYR 462MVR 480MUR 484MXN 496MNT 498MDL 504MAD 512OMR 516NAD 524NPR 532ANG
533AWG 548VUV 554NZD 558NIO 566NGN 578NOK 586PKR 590PAB 598PGK 600PYG 604PEN 608PHP 634QAR 643RUB 646RWF 654SHP
682SAR 690SCR 702SGD 704VND 706SOS 710ZAR 728SSP 748SZL 752SEK 756CHF 760SYP 764THB 776TOP 780TTD 784AED 788TND
800UGX 807MKD 818EGP 826GBP 834TZS 840USD 858UYU 860UZS 882WST 886YER 901TWD 925SLE 928VES 929MRU 930STN 933BYN
934TMT 936GHS 938SDG 941RSD 943MZN 944AZN 946RON 949TRY 950XAF 951XCD 952XOF 953XPF 967ZMW 968SRD 969MGA 971AFN
972TJS 973AOA 975BGN 976CDF 977BAM 978EUR 980UAH 981GEL 985PLN 986BRL`

// amount writes what is paid for people: minor units, the exponent and the
// currency become 1,234.50 EUR. It is "" when nothing is paid.
func amount(minor, exponent, currency string) string {
	if minor == "" || !digits(minor) {
		return ""
	}
	places, _ := strconv.Atoi(exponent)
	minor = strings.TrimLeft(minor, "0")
	minor = strings.Repeat("0", max(0, places+1-len(minor))) + minor
	whole, part := minor[:len(minor)-places], minor[len(minor)-places:]
	var text strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			text.WriteByte(',')
		}
		text.WriteRune(c)
	}
	if part != "" {
		text.WriteString("." + part)
	}
	return text.String() + " " + letters(currency)
}

func letters(currency string) string {
	for _, entry := range strings.Fields(currencies) {
		if number, name := entry[:3], entry[3:]; number == currency {
			return name
		}
	}
	return currency
}
