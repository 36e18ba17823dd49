package docsite

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// A Hit is a passage of the documentation that [Site.Search] has found.
type Hit struct {
	Page    string // Page is the name of the page in Markdown, such as errors.md.
	Anchor  string // Anchor is where the passage is on its page; "" is the top.
	Title   string // Title is the title of the page.
	Heading string // Heading is the heading above the passage, with the first cell if the passage is a row of a table.
	Text    string
}

// Search returns the best passages for a question, the best first: one of each page. It ranks as the page of the search
// does, whose script is assets/search.js.
func (s *Site) Search(question string) ([]Hit, error) {
	x, err := s.ranking()
	if err != nil {
		return nil, err
	}
	var hits []Hit
	for _, i := range x.search(question) {
		e := &x.entries[i]
		p := s.pages[e.page]
		c, err := p.content()
		if err != nil {
			return nil, err
		}
		heading := e.title
		if e.heading != "" && e.heading != c.title {
			heading = e.heading + ": " + e.title
		}
		hits = append(hits, Hit{p.name, e.anchor, c.title, heading, e.text})
	}
	return hits, nil
}

// common are words that stand in most questions and pages, and say nothing about either.
var common = func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(`a an and any are as at be been by can do does element field for from get give
		given has have how i if in into is it its may me member must my of on or our shall should so than that the their
		them then there this to us was we what when where which who why will with you your`) {
		words[word] = true
	}
	return words
}()

var (
	longWord    = regexp.MustCompile(`^[a-z]{5,}$`)
	wordEnding  = regexp.MustCompile(`(?:ing|ed)$`)
	digitGroups = regexp.MustCompile(`\b\d{4}(?: \d{2,4})+\b`)
	anyWord     = regexp.MustCompile(`[A-Za-z0-9]+`)
	wordPart    = regexp.MustCompile(`[A-Z]+|[A-Z]?[a-z]+|\d+`)
	camelCase   = regexp.MustCompile(`[a-z][A-Z]`)
)

// stem returns what the forms of a word have in common: expire, expires and expired.
func stem(word string) string {
	if !longWord.MatchString(word) {
		return word
	}
	if before, isPlural := strings.CutSuffix(word, "ies"); isPlural {
		word = before + "y"
	}
	word = strings.TrimSuffix(word, "s")
	return strings.TrimSuffix(wordEnding.ReplaceAllString(word, ""), "e")
}

// wordsOf returns the words of a text. Groups of digits are one number, as on a card. The parts of a name such as
// acctNumber follow it.
func wordsOf(text string) []string {
	whole := digitGroups.ReplaceAllStringFunc(text, func(number string) string {
		return strings.ReplaceAll(number, " ", "")
	})
	withoutAccents := transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)))
	if plain, _, err := transform.String(withoutAccents, whole); err == nil {
		whole = plain
	}
	var found []string
	for _, word := range anyWord.FindAllString(whole, -1) {
		low := strings.ToLower(word)
		if common[low] {
			continue
		}
		found = append(found, stem(low))
		if camelCase.MatchString(word) {
			for _, part := range partsOf(word) {
				found = append(found, stem(strings.ToLower(part)))
			}
		}
	}
	return found
}

// partsOf returns the parts of a name such as threeDSServerTransID. The last capital of several belongs to the word
// behind it.
func partsOf(name string) []string {
	var parts []string
	for _, part := range wordPart.FindAllString(name, -1) {
		last := len(parts) - 1
		if isLower := part[0] >= 'a' && part[0] <= 'z'; isLower && last >= 0 && strings.ToUpper(parts[last]) == parts[last] {
			capitals := parts[last]
			part = capitals[len(capitals)-1:] + part
			if parts = parts[:last]; len(capitals) > 1 {
				parts = append(parts, capitals[:len(capitals)-1])
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// How much a word counts where it stands.
const (
	inTitle     = 6.0
	inHeading   = 3.0
	inPageTitle = 2.0
	inText      = 1.0
)

// What else counts. The script of the page says what each number means.
const (
	beginningCounts = 0.5
	wholePageCounts = 0.8
	pageTitleCounts = 1.2
	headingCounts   = 1.15
	askedCounts     = 0.7
	definitionTimes = 2.2
	forFewTimes     = 0.7
	mostHits        = 12
)

var (
	forFew      = regexp.MustCompile(`^(?:design/|goals|conformance)`)
	definitions = regexp.MustCompile(`^(?:reference/|glossary|error-finder)`)
)

// weights has the weight of each word in each document.
type weights map[string]map[int]float64

func (w weights) add(document int, words []string, weight float64) {
	for _, word := range words {
		if w[word] == nil {
			w[word] = map[int]float64{}
		}
		w[word][document] += weight
	}
}

// addTitle adds words that count more the fewer there are.
func (w weights) addTitle(document int, words []string, weight float64) {
	w.add(document, words, weight/(1+math.Log(float64(max(1, len(words))))))
}

// A ranking ranks the entries of all pages.
type ranking struct {
	entries               []pageEntry
	paths                 []string   // paths has the path of each page.
	titlesOf              [][]string // titlesOf has the words in the title of each entry.
	parts, wholes, titles weights    // parts has the weights of entries; wholes and titles have those of pages.
	vocabulary            []string   // vocabulary has each word of all entries once.
}

// newRanking reads all pages.
func (s *Site) newRanking() (*ranking, error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	x := &ranking{entries: entries, parts: weights{}, wholes: weights{}, titles: weights{}}
	titles := make([][]string, len(s.pages))
	for i, p := range s.pages {
		c, err := p.content()
		if err != nil {
			return nil, err
		}
		titles[i] = wordsOf(c.title)
		x.paths = append(x.paths, p.path)
		x.titles.addTitle(i, titles[i], inTitle)
		inPath := slices.DeleteFunc(wordsOf(strings.Replace(p.path, ".html", "", 1)), func(word string) bool {
			return word == "index"
		})
		x.titles.add(i, inPath, inPageTitle)
	}
	for i, e := range entries {
		titleWords, textWords := wordsOf(e.title), wordsOf(e.text)
		x.titlesOf = append(x.titlesOf, titleWords)
		x.parts.addTitle(i, titleWords, inTitle)
		x.parts.addTitle(i, wordsOf(e.heading), inHeading)
		x.parts.addTitle(i, titles[e.page], inPageTitle)
		x.parts.add(i, textWords, inText)
		x.wholes.add(e.page, titleWords, inText)
		x.wholes.add(e.page, textWords, inText)
	}
	for word := range x.parts {
		x.vocabulary = append(x.vocabulary, word)
	}
	return x, nil
}

// An askedWord is a word of a question, with the words that it matches.
type askedWord struct {
	word    string
	matches []string
}

// score returns the score of each document that has a word of the question. A weight of saturation counts half.
func (w weights) score(question []askedWord, total int, saturation float64) map[int]float64 {
	points, words := map[int]float64{}, map[int]float64{}
	for _, asked := range question {
		best := map[int]float64{}
		for _, known := range asked.matches {
			counts := beginningCounts
			if known == asked.word {
				counts = 1
			}
			for document, weight := range w[known] {
				best[document] = max(best[document], counts*weight/(weight+saturation))
			}
		}
		rarity := math.Log(1 + float64(total)/float64(len(best)+1))
		for document, p := range best {
			points[document] += p * rarity
			words[document]++
		}
	}
	for document := range points {
		share := words[document] / float64(len(question))
		points[document] *= share * share
	}
	return points
}

// search returns the best entry of each of the best pages.
func (x *ranking) search(text string) []int {
	asks := wordsOf(text)
	slices.Sort(asks)
	asks = slices.Compact(asks)
	question := make([]askedWord, len(asks))
	for i, word := range asks {
		question[i] = askedWord{word, []string{word}}
		if len(word) >= 3 {
			question[i].matches = slices.DeleteFunc(slices.Clone(x.vocabulary), func(known string) bool {
				return !strings.HasPrefix(known, word)
			})
		}
	}
	low := strings.ToLower(strings.TrimSpace(text))
	type found struct {
		entry  int
		points float64
	}
	bestOf := map[int]found{} // by page
	for i, points := range x.parts.score(question, len(x.entries), 4) {
		e, words := &x.entries[i], x.titlesOf[i]
		asked := 0
		for _, word := range words {
			if slices.Contains(asks, word) {
				asked++
			}
		}
		points *= 1 + askedCounts*float64(asked)/float64(max(1, len(words)))
		isTitle := strings.ToLower(e.title) == low || asked > 0 && asked == len(words) && asked == len(asks)
		switch {
		case isTitle && definitions.MatchString(x.paths[e.page]):
			points *= definitionTimes
		case e.heading == "":
			points *= headingCounts
		}
		if b, isThere := bestOf[e.page]; !isThere || points > b.points || points == b.points && i > b.entry {
			bestOf[e.page] = found{i, points}
		}
	}
	wholes, titles := x.wholes.score(question, len(x.paths), 12), x.titles.score(question, len(x.paths), 3)
	var hits []found
	for page, b := range bestOf {
		b.points += wholePageCounts*wholes[page] + pageTitleCounts*titles[page]
		if forFew.MatchString(x.paths[page]) {
			b.points *= forFewTimes
		}
		hits = append(hits, b)
	}
	slices.SortFunc(hits, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.points, a.points), cmp.Compare(a.entry, b.entry))
	})
	var entries []int
	for _, h := range hits[:min(len(hits), mostHits)] {
		entries = append(entries, h.entry)
	}
	return entries
}
