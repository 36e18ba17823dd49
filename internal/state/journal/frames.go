package journal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Entries that are written together stand in frames: up to frameLen entries of one chain, each sealed under the key of
// its authentication, and all of them with their ids under the key of the day. Their digests are in clear, so a chain
// is followed without opening them. The MAC of a frame is that of its last link, which all entries before it are part
// of. Messages and personal data have frames of their own beside it, for they go before. journal_places says in which
// frame the entries of an id are.

// frameLen is how many entries a frame has at most. To read one of them, the frame is opened, and of its entries that
// one.
const frameLen = 64

// A frame is a row of journal_frames.
type frame struct {
	made        int64 // made is when the day of the frame begins, in milliseconds since 1970.
	n           int64 // n is the number of the frame.
	chain       string
	first, last int64  // first and last are the numbers of the entries in the chain.
	digests     []byte // digests are the digests of all entries, without anything between them.
	link, mac   []byte // link and mac are those of the last entry.
	body        []byte // body has a frameItem for each entry, sealed.

	// messages and personal have a sealed text for each entry, which may be empty. They are nil when no entry has one.
	messages, personal []byte
}

// A frameItem is an entry in a frame. One that was erased has no content.
type frameItem struct {
	id, kind, merchant string
	card               []byte // see [Keys.CardHash]
	billed             billedItem
	// sealed is salt and content, under the key of the authentication; see forgottenMark. It is nothing if erased.
	sealed []byte

	salt, content []byte // what was sealed, if the entry was opened
	// isForgotten says that the key of the entry was forgotten. Such an entry counts as erased.
	isForgotten bool
}

var frameColumns = []string{"made", "frame", "chain", "first", "last", "digests", "link", "mac", "body"}

func (f *frame) row() []any {
	return []any{f.made, f.n, f.chain, f.first, f.last, f.digests, f.link, f.mac, f.body}
}

// day returns the day of the frame.
func (f *frame) day() string { return dayOf(time.UnixMilli(f.made)) }

// name is what the frame is sealed under. What stands beside it has the name of its table behind it.
func (f *frame) name() string { return "frame " + f.chain + " " + strconv.FormatInt(f.first, 10) }

// besideColumns are those of a row of each of besideTables.
var besideColumns = []string{"made", "frame", "body"}

// placeColumns are those of a row of journal_places.
var placeColumns = []string{"made", "id", "kind", "frame", "at", "gone"}

// A framesToWrite has rows for the tables of frames.
type framesToWrite struct{ frames, messages, personal, places [][]any }

// insertFrames adds rows in the transaction of a connection.
func (db *database) insertFrames(ctx context.Context, conn *sql.Conn, w *framesToWrite) error {
	for _, part := range []struct {
		table   string
		columns []string
		rows    [][]any
	}{
		{"journal_frames", frameColumns, w.frames}, {"journal_messages", besideColumns, w.messages},
		{"journal_personal", besideColumns, w.personal}, {"journal_places", placeColumns, w.places},
	} {
		if err := db.insert(ctx, conn, part.table, part.columns, part.rows); err != nil {
			return err
		}
	}
	return nil
}

// nextFrame returns a number for a frame that no other writer gives to one.
func (db *database) nextFrame() int64 {
	db.frames++
	id, _ := strconv.ParseInt(db.writer[:7], 16, 64) // 28 bits of the name, which is hexadecimal
	return id<<32 | db.frames
}

// A framePart is what is read of frames besides their digests and links.
type framePart int

const (
	bareFrames    framePart = iota // reads nothing more
	frameEntries                   // reads entries
	frameMessages                  // reads entries and messages
	wholeFrames                    // reads entries, messages and personal data
)

// eachFrame calls do with each frame of a condition, of which at least a part is read, in the order of their chains.
func (db *database) eachFrame(ctx context.Context, from querier, part framePart, do func(*frame) error,
	condition string, args ...any) error {
	columns := []string{"body", "m.body", "p.body"}
	for i, least := range []framePart{frameEntries, frameMessages, wholeFrames} {
		if part < least {
			columns[i] = "NULL"
		}
	}
	beside := func(column, table, letter string) string {
		if column == "NULL" {
			return column
		}
		return fmt.Sprintf(`(SELECT %s FROM %s %[3]s WHERE %[3]s.frame = f.frame AND %[3]s.made = f.made)`, column,
			table, letter)
	}
	rows, err := from.QueryContext(ctx,
		db.query(`SELECT made, frame, chain, first, last, digests, link, mac, `+columns[0]+`, `+
			beside(columns[1], "journal_messages", "m")+`, `+beside(columns[2], "journal_personal", "p")+
			` FROM journal_frames f WHERE `+condition+` ORDER BY chain, first`), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var f frame
		if err := rows.Scan(&f.made, &f.n, &f.chain, &f.first, &f.last, &f.digests, &f.link, &f.mac, &f.body, &f.messages,
			&f.personal); err != nil {
			return err
		}
		if err := do(&f); err != nil {
			return err
		}
	}
	return rows.Err()
}

// A place says where an entry is.
type place struct {
	made     int64
	id, kind string
	frame    int64
	at       int64 // at is the index of the entry in the frame.
}

// placesText begins the statement that reads places.
const placesText = `SELECT made, id, kind, frame, at FROM journal_places WHERE `

// readPlaces returns the places of a condition whose entries were not erased.
func (db *database) readPlaces(ctx context.Context, from querier, condition string, args ...any) ([]place, error) {
	return db.readAllPlaces(ctx, from, `gone = 0 AND `+condition, args...)
}

// readAllPlaces returns the places of a condition.
func (db *database) readAllPlaces(ctx context.Context, from querier, condition string, args ...any) ([]place, error) {
	return readRows(ctx, from, func(p *place) []any { return []any{&p.made, &p.id, &p.kind, &p.frame, &p.at} },
		db.query(placesText+condition), args...)
}

// framesAtOnce is how many frames one statement asks for by their numbers.
const framesAtOnce = 100

// eachFrameOf calls do with each frame that places name, and those of the places that are in it, in the order of their
// chains: numbers of frames begin as the names of chains do.
func (db *database) eachFrameOf(ctx context.Context, from querier, part framePart, places []place,
	do func(*frame, []place) error) error {
	type key struct{ day, n int64 }
	byFrame := map[key][]place{}
	var order []key
	for _, p := range places {
		k := key{roundDown(p.made, dayLen), p.frame}
		if byFrame[k] == nil {
			order = append(order, k)
		}
		byFrame[k] = append(byFrame[k], p)
	}
	slices.SortFunc(order, func(a, b key) int { return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.n, b.n)) })
	for len(order) > 0 {
		n := 1
		for n < len(order) && n < framesAtOnce && order[n].day == order[0].day {
			n++
		}
		args := []any{order[0].day}
		for _, k := range order[:n] {
			args = append(args, k.n)
		}
		var frames []*frame // all of them are read before the first is passed on, which may use the same connection
		err := db.eachFrame(ctx, from, part, func(f *frame) error {
			frames = append(frames, f)
			return nil
		}, `made = ? AND frame IN (`+marks(n)+`)`, args...)
		for _, f := range frames {
			of := byFrame[key{f.made, f.n}]
			slices.SortFunc(of, func(a, b place) int { return cmp.Compare(a.at, b.at) })
			if err == nil {
				err = do(f, of)
			}
		}
		if err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

// isAtOneOf returns which entries of a frame are at places.
func isAtOneOf(places []place) func(int, *frameItem) bool {
	return func(i int, _ *frameItem) bool {
		return slices.ContainsFunc(places, func(p place) bool { return p.at == int64(i) })
	}
}

// itemAt returns the entry at a place of a frame; nil if it was erased meanwhile. It returns errSealed for a place that
// is not as it was written.
func itemAt(items []frameItem, p place) (*frameItem, error) {
	if p.at < 0 || p.at >= int64(len(items)) {
		return nil, errSealed
	}
	item := &items[p.at]
	switch {
	case item.id != p.id || item.kind != p.kind:
		return nil, errSealed
	case item.isErased():
		return nil, nil
	}
	return item, nil
}
