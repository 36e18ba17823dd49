package browser

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/language"

	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/message"
)

//go:embed texts.json
var textsJSON []byte

// languages are those of texts.json. The first one is for everybody else.
var languages = []string{"en", "de", "fr", "es", "it", "nl", "pt", "pl", "da", "sv", "nb", "fi", "ja", "zh", "ar"}

// readTexts returns the texts of all languages by language and key.
var readTexts = sync.OnceValue(func() map[string]map[string]string {
	var texts map[string]map[string]string
	if err := json.Unmarshal(textsJSON, &texts); err != nil {
		panic(err) // the file is part of the program
	}
	return texts
})

var matcher = sync.OnceValue(func() language.Matcher {
	var tags []language.Tag
	for _, l := range languages {
		tags = append(tags, language.MustParse(l))
	}
	return language.NewMatcher(tags)
})

// pickLanguage returns the language of the first preference that has texts. A preference is
// a tag, or a list as in Accept-Language. An entry that is no known language does not count.
func pickLanguage(preferences ...string) string {
	for _, p := range preferences {
		var tags []language.Tag
		for _, text := range message.LanguageTags(p) {
			if tag, err := language.Parse(text); err == nil && tag != language.Und {
				tags = append(tags, tag)
			}
		}
		if len(tags) == 0 {
			continue
		}
		if _, i, confidence := matcher().Match(tags...); confidence > language.No {
			return languages[i]
		}
	}
	return languages[0]
}

// direction returns the dir attribute of a language.
func direction(language string) string {
	if language == "ar" {
		return "rtl"
	}
	return "ltr"
}

// textsFor returns the texts of a language with the merchant's name and the amount filled in.
func textsFor(language, merchant, amount string) map[string]string {
	fill := strings.NewReplacer("{merchant}", merchant, "{amount}", amount)
	filled := make(map[string]string)
	for key, text := range readTexts()[language] {
		filled[key] = fill.Replace(text)
	}
	if amount == "" {
		filled["amount"] = merchant
	}
	return filled
}

// formatAmount returns an amount of minor units as in "129.00 EUR", "" if nothing is paid.
func formatAmount(v *session.BrowserView) string {
	exponent, err := strconv.Atoi(v.Exponent)
	if v.Amount == "" || err != nil || exponent < 0 || exponent > 9 {
		return ""
	}
	digits := strings.Repeat("0", max(0, exponent+1-len(v.Amount))) + v.Amount
	if exponent > 0 {
		digits = digits[:len(digits)-exponent] + "." + digits[len(digits)-exponent:]
	}
	return strings.TrimSpace(digits + " " + v.Currency)
}

var colourForm = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

func isColour(text string) bool { return colourForm.MatchString(text) }

// textColour returns black or white, whichever has the greater contrast on a colour (WCAG 2.2, relative luminance).
func textColour(colour string) string {
	rgb, _ := strconv.ParseUint(colour[1:], 16, 32)
	luminance := 0.2126*linear(rgb>>16&0xff) + 0.7152*linear(rgb>>8&0xff) + 0.0722*linear(rgb&0xff)
	if 1.05/(luminance+0.05) >= (luminance+0.05)/0.05 {
		return "#ffffff"
	}
	return "#000000"
}
