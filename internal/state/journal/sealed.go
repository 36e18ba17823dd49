package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A search reads journal_records, whose columns are plain. So each row has a MAC under the keys of the journal. A row
// that was changed in the store is shown as such, and nothing else of it. What is billed, and what goes to
// spreadsheets, is read from the sealed entries.

// rowText is what the MAC of a row is made over: its columns in their order, each behind its length.
func rowText(text []byte, row []any) []byte {
	text = append(text, "threeds journal row "...)
	for _, value := range row {
		switch value := value.(type) {
		case int64:
			text = binary.AppendVarint(append(text, 'n'), value)
		case string:
			text = appendText(append(text, 't'), value)
		case []byte:
			text = appendText(append(text, 'b'), value)
		}
	}
	return text
}

// recordValues are the columns of a row of journal_records, as it was read.
type recordValues struct {
	numbers [4]int64   // made, rank, challenged, bucket
	texts   [19]string // all others but card and mac
	card    []byte
	mac     []byte
}

// places returns where each column goes, in the order of recordColumns.
func (v *recordValues) places() (all []any) {
	numbers, texts := 0, 0
	for _, column := range recordColumns {
		switch column {
		case "made", "rank", "challenged", "bucket":
			all = append(all, &v.numbers[numbers])
			numbers++
		case "card":
			all = append(all, &v.card)
		case "mac":
			all = append(all, &v.mac)
		default:
			all = append(all, &v.texts[texts])
			texts++
		}
	}
	return all
}

func (v *recordValues) fields() []any { return v.places() }

// row returns the columns without the MAC.
func (v *recordValues) row() (all []any) {
	for _, place := range v.places() {
		switch value := place.(type) {
		case *int64:
			all = append(all, *value)
		case *string:
			all = append(all, *value)
		case *[]byte:
			all = append(all, *value)
		}
	}
	return all[:len(all)-1]
}

// recordOf returns what a row says of its record. If the row was changed in the store, it returns only what a search
// may show of such a row.
func (db *database) recordOf(v *recordValues) Record {
	id, made := v.texts[0], v.numbers[0]
	if !db.ours.isMAC(v.mac, rowText(nil, v.row())) {
		return db.changedRecord(id, made)
	}
	return Record{ID: id, Created: time.UnixMilli(made).UTC()}
}

// changedRecord returns what may be told of a record that was changed in the store, and counts it.
func (db *database) changedRecord(id string, made int64) Record {
	db.changed.Add(1)
	at := time.UnixMilli(made).UTC()
	return Record{ID: id, Created: at, Updated: at, Status: ChangedInStore, IsChanged: true}
}

// ChangedInStore is the status of a record whose row was changed in the store.
const ChangedInStore = "changed_in_store"

// A newestEntry is what the newest entry of a record says of it.
type newestEntry struct {
	Kind   Kind   `json:"kind"`
	Record Record `json:"record"`
}

// newestEntries finds the newest entry of each record.
type newestEntries struct {
	ranks map[string]int // of the newest one so far, by id
	do    func(*frameItem, newestEntry)
}

// add passes on an entry of a record, unless it is older than one before, was erased, or was not opened.
func (n *newestEntries) add(item *frameItem) error {
	rank := rankOf(Kind(item.kind))
	if was, ok := n.ranks[item.id]; item.isErased() || rank < 0 || ok && rank < was {
		return nil
	}
	n.ranks[item.id] = rank
	var e newestEntry
	if err := json.Unmarshal(item.content, &e); err != nil {
		return err
	}
	n.do(item, e)
	return nil
}

// countChangedRows counts the records of a day whose row says something else than their newest entry, or is missing,
// and the rows that have no entry. Places that are not those of the entries count as one more, and so does each hour
// whose postings or rollups are not those of the rows. If nothing was changed, it writes journal_hours of the day.
func (db *database) countChangedRows(ctx context.Context, day string) (n int, err error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return 0, err
	}
	begin, end := spanOfDay(at)
	if err := db.dropForgotten(ctx, begin, idsOfRecords, begin, end, -begin, -end); err != nil {
		return 0, err
	}
	if err := db.dropForgotten(ctx, begin, idsOfPlaces, begin, end); err != nil {
		return 0, err
	}
	all, places, err := db.readSealedRows(ctx, begin)
	if errors.Is(err, errSealed) {
		return 0, nil // the check of the chain says so
	}
	if err != nil {
		return 0, err
	}
	keys := keysByHour(all)
	if err := db.eachRow(ctx, begin, end, func(v *recordValues) {
		id, text := v.texts[0], rowText(nil, v.row())
		if !db.ours.isMAC(v.mac, text) || all[id].row != sha256.Sum256(text) {
			n++
		}
		delete(all, id)
	}); err != nil {
		return 0, err
	}
	n += len(all)
	found, err := db.sumPlaces(ctx, begin, end)
	if err != nil {
		return n, err
	}
	if found != places {
		n++
	}
	changed, err := db.countChangedHours(ctx, begin, end)
	if n += changed; n > 0 || err != nil {
		return n, err
	}
	return 0, db.putHours(ctx, begin, keys)
}

// A sealedRow is what the newest entry of an authentication says of its row for searches.
type sealedRow struct {
	made int64
	row  [sha256.Size]byte // row is a hash of its columns.
}

// readSealedRows returns what the sealed entries of a day say of the rows for searches, by id, and the sum of their
// places. It returns errSealed if one is not as it was written.
func (db *database) readSealedRows(ctx context.Context, begin int64) (all map[string]sealedRow, places uint64,
	err error) {
	all = map[string]sealedRow{}
	var text []byte
	entries := newestEntries{ranks: map[string]int{}, do: func(item *frameItem, e newestEntry) {
		text = rowText(text[:0], columnsOf(&Entry{Kind: e.Kind, Record: e.Record, CardHash: item.card}))
		all[item.id] = sealedRow{e.Record.Created.UnixMilli(), sha256.Sum256(text)}
	}}
	err = db.eachFrame(ctx, db, frameEntries, func(f *frame) error {
		items, err := db.openItems(ctx, f, isAny)
		for i := range items {
			if err != nil || items[i].isErased() {
				continue
			}
			places += db.placeSum(items[i].id, items[i].kind, f.n, int64(i))
			err = entries.add(&items[i])
		}
		return err
	}, `made = ?`, begin)
	return all, places, err
}

// eachRow calls do with each row of journal_records of a time, one by one: those of a day may be millions.
func (db *database) eachRow(ctx context.Context, begin, end int64, do func(*recordValues)) error {
	rows, err := db.QueryContext(ctx,
		db.query(`SELECT `+strings.Join(recordColumns, ", ")+` FROM journal_records
		WHERE made >= ? AND made < ? AND -made <= ? AND -made > ?`), begin, end, -begin, -end)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var v recordValues
		if err := rows.Scan(v.fields()...); err != nil {
			return err
		}
		do(&v)
	}
	return rows.Err()
}

// sumPlaces adds up the places of a time, in whatever order.
func (db *database) sumPlaces(ctx context.Context, begin, end int64) (sum uint64, err error) {
	rows, err := db.QueryContext(ctx,
		db.query(`SELECT id, kind, frame, at FROM journal_places WHERE made >= ? AND made < ? AND gone = 0`), begin, end)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var p place
		if err := rows.Scan(&p.id, &p.kind, &p.frame, &p.at); err != nil {
			return 0, err
		}
		sum += db.placeSum(p.id, p.kind, p.frame, p.at)
	}
	return sum, rows.Err()
}

// placeSum returns what a place adds to the sum of places. Without the keys nobody knows it.
func (db *database) placeSum(id, kind string, frame, at int64) uint64 {
	mac := db.ours.mac(fmt.Appendf(nil, "threeds journal place %q %q %d %d", id, kind, frame, at))
	return binary.BigEndian.Uint64(mac)
}

// readSealed replaces records by what their sealed entries say. One that has no entry was changed in the store.
func (db *database) readSealed(ctx context.Context, all []Record) error {
	byDay := map[int64][]int{}
	for i := range all {
		day := roundDown(all[i].Created.UnixMilli(), dayLen)
		byDay[day] = append(byDay[day], i)
	}
	for _, day := range slices.Sorted(maps.Keys(byDay)) {
		args := []any{day, day + dayLen}
		for _, i := range byDay[day] {
			args = append(args, all[i].ID)
		}
		newest, forgotten, err := db.readNewestOf(ctx, args)
		if err != nil {
			return err
		}
		for _, i := range byDay[day] {
			r := &all[i]
			e, ok := newest[r.ID]
			switch {
			case r.IsChanged:
			case ok:
				*r = *e.Record.withoutForeignText()
			case forgotten[r.ID]:
				*r = Record{ID: r.ID, Created: r.Created, Updated: r.Created, Status: ErasedInStore}
			default:
				*r = db.changedRecord(r.ID, r.Created.UnixMilli())
			}
		}
	}
	return nil
}

// readNewestOf returns the newest entry of some records, by their ids, and of which of them the keys were forgotten.
// The arguments are the begin and the end of a time, and the ids.
func (db *database) readNewestOf(ctx context.Context, args []any) (newest map[string]newestEntry,
	forgotten map[string]bool, err error) {
	newest, forgotten = map[string]newestEntry{}, map[string]bool{}
	n := newestEntries{ranks: map[string]int{}, do: func(item *frameItem, e newestEntry) { newest[item.id] = e }}
	places, err := db.readPlaces(ctx, db, `made >= ? AND made < ? AND id IN (`+marks(len(args)-2)+`)`, args...)
	if err != nil {
		return nil, nil, err
	}
	return newest, forgotten, db.eachFrameOf(ctx, db, frameEntries, places, func(f *frame, places []place) error {
		items, err := db.openItems(ctx, f, isAtOneOf(places))
		for _, p := range places {
			if err != nil {
				break
			}
			var item *frameItem
			if item, err = itemAt(items, p); item != nil {
				err = n.add(item)
			} else if err == nil && items[p.at].isForgotten {
				forgotten[p.id] = true
			}
		}
		if errors.Is(err, errSealed) { // the caller reports the record as changed
			err = nil
		}
		return err
	})
}

// CountChanged implements [Store].
func (s *fileStore) CountChanged() uint64 { return s.changed.Load() }

// CountChanged implements [Store].
func (s *tableStore) CountChanged() uint64 { return s.database.changed.Load() }

// CountChanged implements [Store].
func (l *lazyStore) CountChanged() uint64 {
	if !l.mu.TryLock() { // it is being opened
		return 0
	}
	defer l.mu.Unlock()
	if l.st == nil {
		return 0
	}
	return l.st.CountChanged()
}
