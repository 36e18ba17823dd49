package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/openthreeds/threeds/internal/protocol/transid"
)

// ErrNotEmpty says that a journal has records already.
var ErrNotEmpty = errors.New("journal: it has records: what is generated would stand among them")

// A Generation says which records [Generate] makes. The same one makes the same records, but for their time.
type Generation struct {
	Authentications int
	Days            int // that they are spread over, up to now
	Merchants       int
	Seed            uint64
}

// generatedBatch is how many records are written at once.
const generatedBatch = 5000

// Generate fills an empty journal with records as busy merchants leave them, to try out searches and to measure. It
// calls progress after each batch with the number of records that are written, one call at a time. It returns
// [ErrNotEmpty] if there are records. While it writes to PostgreSQL, the indexes that searches need are away.
func Generate(ctx context.Context, st Store, keys *Keys, g Generation, now time.Time, progress func(int)) (err error) {
	page, err := st.Search(ctx, Query{Limit: 1})
	if err != nil {
		return err
	}
	if len(page.Records) > 0 {
		return ErrNotEmpty
	}
	writers := []Store{st}
	if bulk, ok := st.(bulkStore); ok {
		if err := bulk.dropIndexes(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bulk.makeIndexes(context.WithoutCancel(ctx))) }()
		for range runtime.GOMAXPROCS(0) - 1 {
			writers = append(writers, bulk.anotherWriter())
		}
	}
	outer := ctx
	work, ctx := errgroup.WithContext(ctx)
	batches := g.batches(ctx, now, keys)
	var mu sync.Mutex
	written := 0
	for _, w := range writers {
		work.Go(func() error {
			for entries := range batches {
				if _, err := w.Write(ctx, entries); err != nil {
					return err
				}
				mu.Lock()
				written += len(entries)
				progress(written)
				mu.Unlock()
			}
			return ctx.Err()
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return st.Sign(outer, now) // as a server would have done it, day by day
}

// batches makes the entries of a generation in another goroutine, so that the next ones are made while some are
// written. It ends with ctx.
func (g Generation) batches(ctx context.Context, now time.Time, keys *Keys) <-chan []Entry {
	made := make(chan []Entry, 1)
	go func() {
		defer close(made)
		random := newRandom(g)
		for n := 0; n < g.Authentications; {
			entries := make([]Entry, 0, min(generatedBatch, g.Authentications-n))
			for ; len(entries) < cap(entries); n++ {
				entries = append(entries, g.entry(n, now, keys, random))
			}
			select {
			case made <- entries:
			case <-ctx.Done():
				return
			}
		}
	}()
	return made
}

// Records returns the records of a generation that ends now, the oldest first.
func (g Generation) Records(now time.Time) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		random := newRandom(g)
		for n := range g.Authentications {
			if !yield(g.entry(n, now, nil, random).Record) {
				return
			}
		}
	}
}

// Card returns the nth card of the generation: a test number that is shared by about ten authentications.
func (g Generation) Card(n int) string {
	return fmt.Sprintf("400000%010d", uint64(n)*7919%max(uint64(g.Authentications)/10, 1))
}

func newRandom(g Generation) *rand.Rand { return rand.New(rand.NewPCG(g.Seed, 1)) }

// At returns the time of the nth authentication of a generation that ends now.
func (g Generation) At(n int, now time.Time) time.Time {
	span := time.Duration(g.Days) * 24 * time.Hour
	step := max(span/time.Duration(max(g.Authentications, 1)), 1)
	return now.Add(-span + time.Duration(n)*step).UTC().Truncate(time.Millisecond)
}

// generatedIDs makes ids that no server accepts.
var generatedIDs = transid.NewKeys([]byte("ids of generated records"))

// ID returns the id of the nth authentication of a generation that ends now. It has its time, as all ids have.
func (g Generation) ID(n int, now time.Time) string {
	random := rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%16x%16x", g.Seed, n)))
	return generatedIDs.New(g.At(n, now), time.Hour, random, 0, "", "")
}

// foreignID returns the id of the nth authentication that another party made.
func (g Generation) foreignID(n int, party byte) string {
	var b [16]byte
	_, _ = rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%15x%c%16x", g.Seed, party, n))).Read(b[:]) // it always reads
	return fmt.Sprintf("%x-%x-4%03x-8%03x-%x", b[:4], b[4:6], uint16(b[6])<<4|uint16(b[7]>>4),
		uint16(b[8])<<4|uint16(b[9]>>4), b[10:])
}

// DSTransID returns the id that the directory server gave to the nth authentication.
func (g Generation) DSTransID(n int) string { return g.foreignID(n, 'd') }

// generatedEnds are how authentications end, each with its share in a hundred.
var generatedEnds = []struct {
	share                                    int
	status, result, transStatus, reason, eci string
	challenged                               bool
}{
	{62, "completed", "authenticated", "Y", "", "05", false}, {16, "completed", "authenticated", "Y", "", "05", true},
	{6, "completed", "attempted", "A", "", "06", false}, {5, "completed", "not_authenticated", "N", "01", "", true},
	{3, "completed", "not_authenticated", "N", "12", "", false}, {4, "expired", "abandoned", "C", "", "", true},
	{2, "completed", "rejected", "R", "11", "", false}, {2, "failed", "error", "", "", "", false},
}

// generatedUnkept returns the rules that no request of a merchant keeps. Three of four merchants keep all.
func generatedUnkept(merchant int) (rules []Rule) {
	if merchant%4 == 1 {
		rules = append(rules, Rule{Element: "email|homePhone|mobilePhone|workPhone", Rule: "require", Since: "2024-08-12"})
	}
	if merchant%8 == 1 {
		rules = append(rules, Rule{Element: "billAddrLine1", Rule: "advise"})
	}
	return rules
}

// entry returns the nth entry.
func (g Generation) entry(n int, now time.Time, keys *Keys, random *rand.Rand) Entry {
	at := g.At(n, now)
	end, at100 := generatedEnds[0], random.IntN(100)
	for _, e := range generatedEnds {
		if end = e; at100 < e.share {
			break
		}
		at100 -= e.share
	}
	schemes := []string{"visa", "visa", "visa", "visa", "visa", "mastercard", "mastercard", "mastercard", "amex", "jcb"}
	// Few merchants and issuers have most of the authentications.
	merchant := int(math.Pow(random.Float64(), 3) * float64(max(g.Merchants, 1)))
	acs, card := int(math.Pow(random.Float64(), 2)*200), g.Card(n)
	took := int64(150 + random.ExpFloat64()*400)
	r := Record{
		ID: g.ID(n, now), Created: at, Updated: at.Add(time.Duration(took) * time.Millisecond), API: "emv", Operation: "auth",
		Merchant: fmt.Sprintf("Shop %d", merchant), Reference: fmt.Sprintf("order-%d", n),
		Card:   Card{Scheme: schemes[random.IntN(len(schemes))], BIN: card[:8], Last4: card[len(card)-4:]},
		Amount: fmt.Sprint(100 + random.IntN(20000)), Currency: "978", MessageVersion: "2.2.0", DeviceChannel: "02",
		MessageCategory: "01", Status: end.status, Result: end.result, TransStatus: end.transStatus,
		TransStatusReason: end.reason, ECI: end.eci, ACS: fmt.Sprintf("ACS-%03d", acs), Challenged: end.challenged,
		DurationMS: took, DSTransID: g.DSTransID(n), ACSTransID: g.foreignID(n, 'a'),
	}
	if r.Card.Scheme == "visa" {
		r.Unkept = generatedUnkept(merchant)
	}
	message := func(kind string) []byte {
		return fmt.Appendf(nil,
			`{"messageType":%q,"messageVersion":"2.2.0","threeDSServerTransID":%q,"dsTransID":%q,"acsTransID":%q}`,
			kind, r.ID, r.DSTransID, r.ACSTransID)
	}
	return Entry{Kind: Answered, Record: r, CardHash: keys.CardHash(card), Steps: []Step{
		{Step: "request", At: at}, {Step: "areq", At: at, Message: message("AReq")},
		{Step: "ares", At: r.Updated, Message: message("ARes")}, {Step: "answered", At: r.Updated},
	}}
}
