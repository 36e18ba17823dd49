package journal

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A seal is a signed statement about a journal. Seals are numbered from 1, and each has the hash of the one before. So
// none can go, and what they name cannot go either. Their kinds:
//
//   - head: how far each chain has come that has grown since the head before,
//   - day: a day is over, and these are its chains for good,
//   - erasure: the content of these entries was erased,
//   - expiry: days before one are over their time, with the seals of those days,
//   - archive: a file has these chains, and the store does not have them any more,
//   - hold: a legal hold was set or lifted, or an erasure left out what one holds, or was done after that.

// The kinds of seals.
const (
	HeadSeal    = "head"
	DaySeal     = "day"
	ErasureSeal = "erasure"
	ExpirySeal  = "expiry"
	ArchiveSeal = "archive"
	HoldSeal    = "hold"
)

// A Seal is a statement with its signature, as a store and an export have it.
type Seal struct {
	N         int64  `json:"n"`
	Text      string `json:"text"`
	KeyID     string `json:"keyId"`
	Signature []byte `json:"signature"` // Ed25519 over Text
}

// Hash returns SHA-256 of the text of the seal, which the next one has.
func (s *Seal) Hash() []byte {
	sum := sha256.Sum256([]byte(s.Text))
	return sum[:]
}

// isSignedBy reports whether one of the keys has signed the seal.
func (s *Seal) isSignedBy(keys []ed25519.PublicKey) bool {
	return slices.ContainsFunc(keys, func(key ed25519.PublicKey) bool {
		return ed25519.Verify(key, []byte(s.Text), s.Signature)
	})
}

// An erasedSpan are the entries of a chain from one to another that were erased.
type erasedSpan struct{ first, last int64 }

// A statement is what a seal says. Which fields it has is a matter of its kind.
type statement struct {
	n      int64
	kind   string
	before []byte
	at     time.Time
	by     string
	days   [2]string  // of a day: the first and the last day that it is about; those before the last have nothing
	chains []ChainEnd // of a head and of a day
	broken []string   // of a day: chains that were changed in the store, and that are not signed
	// of an erasure, by chain
	erased   map[string][]erasedSpan
	count    int64            // of an erasure: how many entries
	mark     string           // An erasure in files says which eraseMark it has left.
	spent    []spentLeaf      // An erasure says which keys of authentications all nodes forget.
	since    string           // of an expiry: the first day that is kept
	first    int64            // of an expiry: the first seal that is kept
	billing  map[string]int64 // of a head: how often the counters of each part of a journal were written
	files    []DayFile        // of an archive: files that were written
	archived []string         // of an archive: chains that the files have, and the store does not have any more
	held     []heldDays       // of an expiry: older days that legal holds keep
	holdWords
}

// sealText returns the text of a statement. Each line has a word and its values.
func (s *statement) sealText() string {
	var b strings.Builder
	line := func(form string, args ...any) { fmt.Fprintf(&b, form+"\n", args...) }
	line("threeds journal seal %d", s.n)
	line("kind %s", s.kind)
	line("before %x", s.before)
	line("at %s", s.at.UTC().Format(time.RFC3339))
	line("by %s", s.by)
	if s.kind == DaySeal {
		line("days %s %s", s.days[0], s.days[1])
	}
	for _, c := range s.chains {
		line("chain %s %d %x", c.Chain, c.Seq, c.Link)
	}
	for _, chain := range s.broken {
		line("broken %s", chain)
	}
	for _, chain := range sortedKeys(s.erased) {
		var spans []string
		for _, span := range s.erased[chain] {
			spans = append(spans, fmt.Sprintf("%d-%d", span.first, span.last))
		}
		line("erased %s %s", chain, strings.Join(spans, ","))
	}
	if s.kind == ErasureSeal {
		line("count %d", s.count)
	}
	if s.mark != "" {
		line("mark %s", s.mark)
	}
	for _, leaf := range s.spent {
		line("spent %s %016x", leaf.tree, leaf.leaf)
	}
	if s.kind == ExpirySeal {
		line("since %s", s.since)
		line("first %d", s.first)
	}
	for _, d := range s.held {
		line("held %s %s", d[0], d[1])
	}
	s.holdWords.write(line)
	for _, part := range sortedKeys(s.billing) {
		line("billing %s %d", part, s.billing[part])
	}
	for _, f := range s.files {
		line("file %s %d %x", f.Name, f.Entries, f.Digest)
	}
	for _, chain := range s.archived {
		line("archived %s", chain)
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	all := make([]string, 0, len(m))
	for key := range m {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// errSeal says that a text is none of a seal.
var errSeal = errors.New("journal: not the text of a seal")

// parseSeal reads the text of a seal. Only a text that sealText makes can be read.
func parseSeal(text string) (*statement, error) {
	s := &statement{erased: map[string][]erasedSpan{}, billing: map[string]int64{}}
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if err := s.parseLine(l); err != nil {
			return nil, err
		}
	}
	if s.sealText() != text {
		return nil, errSeal
	}
	return s, nil
}

func (s *statement) parseLine(l string) error {
	word, rest, _ := strings.Cut(l, " ")
	part := strings.Split(rest, " ")
	var err error
	number := func(text string) int64 {
		n, wrong := strconv.ParseInt(text, 10, 64)
		err = errors.Join(err, wrong)
		return n
	}
	bytesOf := func(text string) []byte {
		b, wrong := hex.DecodeString(text)
		err = errors.Join(err, wrong)
		return b
	}
	switch {
	case word == "threeds" && len(part) == 3:
		s.n = number(part[2])
	case word == "kind":
		s.kind = rest
	case word == "before":
		s.before = bytesOf(rest)
	case word == "at":
		s.at, err = time.Parse(time.RFC3339, rest)
	case word == "by":
		s.by = rest
	case word == "days" && len(part) == 2:
		s.days = [2]string{part[0], part[1]}
	case word == "chain" && len(part) == 3:
		s.chains = append(s.chains, ChainEnd{part[0], number(part[1]), bytesOf(part[2])})
	case word == "broken":
		s.broken = append(s.broken, rest)
	case word == "erased" && len(part) == 2:
		for span := range strings.SplitSeq(part[1], ",") {
			first, last, _ := strings.Cut(span, "-")
			s.erased[part[0]] = append(s.erased[part[0]], erasedSpan{number(first), number(last)})
		}
	case word == "count":
		s.count = number(rest)
	case word == "mark":
		s.mark = rest
	case word == "spent" && len(part) == 2:
		leaf, wrong := strconv.ParseUint(part[1], 16, 64)
		s.spent, err = append(s.spent, spentLeaf{part[0], leaf}), wrong
	case word == "since":
		s.since = rest
	case word == "first":
		s.first = number(rest)
	case word == "held" && len(part) == 2:
		s.held = append(s.held, heldDays{part[0], part[1]})
	case word == "hold":
		s.hold = rest
	case word == "lift":
		s.lift = number(rest)
	case word == "left":
		s.left = rest
	case word == "done":
		s.done = number(rest)
	case word == "billing" && len(part) == 2:
		s.billing[part[0]] = number(part[1])
	case word == "file" && len(part) == 3:
		s.files = append(s.files, DayFile{Name: part[0], Entries: number(part[1]), Digest: bytesOf(part[2])})
	case word == "archived":
		s.archived = append(s.archived, rest)
	default:
		return errSeal
	}
	if err != nil {
		return errSeal
	}
	return nil
}

// seal signs a statement.
func (k *Keys) seal(s *statement) Seal {
	s.by = strings.Join(strings.Fields(s.by), "_") // a name with a line feed would be another line
	text := s.sealText()
	return Seal{s.n, text, keyID(k.PublicKey()), ed25519.Sign(k.signer(), []byte(text))}
}

// publicKeys returns the keys by which seals are verified, the one in use first.
func (k *Keys) publicKeys() (all []ed25519.PublicKey) {
	for _, seed := range k.signing {
		all = append(all, ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
	}
	return all
}

// SignDay signs days of the audit trail: from the first to the last one it has come to this end. The trail keeps the
// seal itself, as one of its entries.
func (k *Keys) SignDay(first, last string, end ChainEnd, at time.Time, by string) Seal {
	return k.seal(&statement{kind: DaySeal, at: at, by: by, days: [2]string{first, last}, chains: []ChainEnd{end}})
}

// ReadDay returns what a seal of [Keys.SignDay] says: the last of its days, and the end of the chain then. It is not ok
// unless the seal is one of that kind that these keys have signed.
func (k *Keys) ReadDay(s *Seal) (last string, end ChainEnd, ok bool) {
	said, err := parseSeal(s.Text)
	if err != nil || said.kind != DaySeal || len(said.chains) != 1 || !s.isSignedBy(k.publicKeys()) {
		return "", ChainEnd{}, false
	}
	return said.days[1], said.chains[0], true
}

// A known is what the seals of a journal say together. Verify and the server follow seals by the same rules.
type known struct {
	n        int64 // of the newest seal; 0 means that there is none
	first    int64 // of the oldest seal
	hash     []byte
	at       time.Time
	headAt   time.Time // when the newest head was made
	lastDay  string    // the last day that was signed
	since    string    // the first day that is kept; "" means that all are
	kept     int64     // the first seal that is kept
	chains   map[string]*knownChain
	erased   map[string][]erasedSpan
	billing  map[string]int64
	archived map[string]bool      // chains that are in a file, and not in the store
	files    map[string][]DayFile // files by their names, each as often as it was written, the newest last
	held     []heldDays           // days before since that legal holds keep
	holds    map[int64]string     // legal holds that are not lifted, encrypted, by their numbers
	spent    []spentKeys          // keys to be forgotten that were not passed on yet
	left     map[int64]string     // erasures that holds have left something out of, encrypted, by their numbers
}

// A knownChain is how far seals say that a chain has come.
type knownChain struct {
	ends     []ChainEnd // in the order of their numbers
	isClosed bool       // a day seal names it, so that it never grows again
	isBroken bool       // it was changed in the store before its day was signed
}

func newKnown() known {
	return known{
		chains: map[string]*knownChain{}, erased: map[string][]erasedSpan{}, billing: map[string]int64{},
		archived: map[string]bool{}, files: map[string][]DayFile{}, holds: map[int64]string{}, left: map[int64]string{},
	}
}

// end returns the last end that seals name.
func (c *knownChain) end() ChainEnd { return c.ends[len(c.ends)-1] }

// add follows the next seal, whose signature is checked elsewhere. It says what is wrong with it, "" if nothing is.
func (k *known) add(seal *Seal) string {
	s, err := parseSeal(seal.Text)
	if err != nil {
		return "the text of a seal cannot be read"
	}
	switch {
	case s.n != seal.N:
		return fmt.Sprintf("seal %d says that it is seal %d", seal.N, s.n)
	case k.n == 0:
		k.first = s.n
	case s.n != k.n+1:
		return fmt.Sprintf("seal %d is not there", k.n+1)
	case !slices.Equal(s.before, k.hash):
		return fmt.Sprintf("seal %d does not fit the one before it", s.n)
	}
	if s.n == 1 && len(s.before) > 0 {
		return "seal 1 says that there is one before it"
	}
	k.n, k.hash, k.at = s.n, seal.Hash(), s.at
	if s.kind == HeadSeal {
		k.headAt = s.at
	}
	if s.kind == DaySeal {
		if k.lastDay != "" && s.days[0] != dayAfter(k.lastDay) || s.days[0] > s.days[1] {
			return fmt.Sprintf("seal %d is about days from %s on, and the days before it end with %s", s.n, s.days[0], k.lastDay)
		}
		k.lastDay = s.days[1]
	}
	if s.kind == ExpirySeal {
		k.since, k.kept, k.held = s.since, s.first, s.held
	}
	k.addHold(s)
	for _, end := range s.chains {
		if what := k.addEnd(end, s.kind == DaySeal); what != "" {
			return what
		}
	}
	for _, chain := range s.broken {
		c := k.chain(chain)
		c.isClosed, c.isBroken = true, true
	}
	k.addErased(s)
	if len(s.spent) > 0 {
		k.spent = append(k.spent, spentKeys{s.spent, s.erased})
	}
	for part, n := range s.billing {
		if n < k.billing[part] {
			return "the counters for billing were set back"
		}
		k.billing[part] = n
	}
	for _, chain := range s.archived {
		k.archived[chain] = true
	}
	for _, f := range s.files {
		k.files[f.Name] = append(k.files[f.Name], f)
	}
	return ""
}

// addErased notes the entries that a tombstone names.
func (k *known) addErased(s *statement) {
	for chain, spans := range s.erased {
		k.erased[chain] = append(k.erased[chain], spans...)
	}
}

func (k *known) chain(name string) *knownChain {
	if k.chains[name] == nil {
		k.chains[name] = &knownChain{}
	}
	return k.chains[name]
}

// addEnd notes an end of a chain that a seal names.
func (k *known) addEnd(end ChainEnd, isLast bool) string {
	c := k.chain(end.Chain)
	if c.isClosed {
		return "the chain " + end.Chain + " is named after the end of its day was signed"
	}
	if n := len(c.ends); n > 0 &&
		(end.Seq < c.ends[n-1].Seq || end.Seq == c.ends[n-1].Seq && !slices.Equal(end.Link, c.ends[n-1].Link)) {
		return "two seals say different things about the chain " + end.Chain
	}
	if n := len(c.ends); n == 0 || end.Seq > c.ends[n-1].Seq {
		c.ends = append(c.ends, end)
	}
	c.isClosed = isLast && end.Chain != AuditChain
	return ""
}

// isErased reports whether a tombstone names an entry of a chain.
func (k *known) isErased(chain string, seq int64) bool {
	return slices.ContainsFunc(k.erased[chain], func(s erasedSpan) bool { return s.first <= seq && seq <= s.last })
}

// isKept reports whether the day of a chain is not over its time, or a legal hold keeps it.
func (k *known) isKept(chain string) bool { return chain == AuditChain || k.hasDay(dayOfChain(chain)) }

// hasDay reports whether a day is not over its time, or a legal hold keeps it.
func (k *known) hasDay(day string) bool {
	return day >= k.since || slices.ContainsFunc(k.held, func(d heldDays) bool { return d[0] <= day && day <= d[1] })
}

// isHere reports whether a chain has to be in the store: its day is not over its time, and not archived.
func (k *known) isHere(chain string) bool { return k.isKept(chain) && !k.archived[chain] }

// dayAfter returns the day behind a day; "" for what is no day.
func dayAfter(day string) string {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return ""
	}
	return dayOf(at.AddDate(0, 0, 1))
}

// signatureText returns a signature as seals and exports write it.
func signatureText(signature []byte) string { return base64.StdEncoding.EncodeToString(signature) }
