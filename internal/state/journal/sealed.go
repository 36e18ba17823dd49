package journal

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// A search reads journal_records, whose columns are plain. So each row has a MAC under the keys of the journal. A row
// that was changed in the store is shown as such, and nothing else of it. What is billed, and what goes to
// spreadsheets, is read from the sealed entries.

// rowText is what the MAC of a row is made over: its columns in their order, each behind its length.
func rowText(row []any) []byte {
	text := []byte("threeds journal row ")
	for _, value := range row {
		switch value := value.(type) {
		case int64:
			text = binary.AppendVarint(append(text, 'n'), value)
		case string:
			text = appendText(append(text, 't'), value)
		case []byte:
			text = appendText(append(text, 'b'), string(value))
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

// recordOf returns the record of a row, or what may be told of one that was changed in the store.
func (db *database) recordOf(v *recordValues) (r Record, err error) {
	row := v.row()
	if !db.ours.isMAC(v.mac, rowText(row)) {
		return db.changedRecord(row[1].(string), v.numbers[0]), nil
	}
	err = json.Unmarshal([]byte(row[slices.Index(recordColumns, "data")].(string)), &r)
	return r, err
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

// readNewest returns the newest entry of each record of a time whose entries fit a condition, by its id.
func (db *database) readNewest(ctx context.Context, from querier, begin, end int64, condition string,
	args ...any) (map[string]newestEntry, error) {
	newest := map[string]newestEntry{}
	return newest, db.eachNewest(ctx, from, begin, end, condition, args, func(id string, e newestEntry) { newest[id] = e })
}

// eachNewest calls do with the entries of the records of a time that fit a condition, but for those that are older than
// one before. So the last one of an id is its newest.
func (db *database) eachNewest(ctx context.Context, from querier, begin, end int64, condition string, args []any,
	do func(id string, e newestEntry)) error {
	type row struct {
		day, id, kind string
		body          []byte
	}
	var kinds []string
	for _, kind := range kindOrder {
		if rankOf(kind) >= 0 {
			kinds = append(kinds, "'"+string(kind)+"'")
		}
	}
	ranks := map[string]int{}
	rows, err := from.QueryContext(ctx,
		db.query(`SELECT day, id, kind, body FROM journal_entries WHERE made >= ? AND made < ? AND body IS NOT NULL
		AND kind IN (`+strings.Join(kinds, ", ")+`) AND `+condition+` ORDER BY chain, seq`),
		slices.Concat([]any{begin, end}, args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.day, &r.id, &r.kind, &r.body); err != nil {
			return err
		}
		if rank, ok := ranks[r.id]; ok && rankOf(Kind(r.kind)) < rank {
			continue
		}
		ranks[r.id] = rankOf(Kind(r.kind))
		content, err := db.open(ctx, r.day, r.id, r.kind, r.body)
		if err != nil {
			return err
		}
		var e newestEntry
		if err := json.Unmarshal(content, &e); err != nil {
			return err
		}
		do(r.id, e)
	}
	return rows.Err()
}

// countChangedRows counts the records of a day whose row says something else than a newest entry, or is missing, and
// the rows that have no entry. Entries of nodes that wrote at the same time may all be the newest.
func (db *database) countChangedRows(ctx context.Context, day string) (n int, err error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return 0, err
	}
	begin, end := spanOfDay(at)
	type newest struct {
		rank    int
		records []string // as JSON
	}
	all := map[string]newest{}
	err = db.eachNewest(ctx, db, begin, end, `1 = 1`, nil, func(id string, e newestEntry) {
		data, _ := json.Marshal(e.Record.withoutForeignText()) // what was read from JSON can be written
		was := all[id]
		if rank := rankOf(e.Kind); rank > was.rank {
			was = newest{rank: rank}
		}
		was.records = append(was.records, string(data))
		all[id] = was
	})
	if errors.Is(err, errSealed) {
		return 0, nil // the check of the chain says so
	}
	if err != nil {
		return 0, err
	}
	rows, err := readRows(ctx, db, (*recordValues).fields,
		db.query(`SELECT `+strings.Join(recordColumns, ", ")+` FROM journal_records
		WHERE made >= ? AND made < ? AND -made <= ? AND -made > ?`), begin, end, -begin, -end)
	for i := range rows {
		row := rows[i].row()
		id, data := row[1].(string), row[slices.Index(recordColumns, "data")].(string)
		if !db.ours.isMAC(rows[i].mac, rowText(row)) || !slices.Contains(all[id].records, data) {
			n++
		}
		delete(all, id)
	}
	return n + len(all), err
}

// readSealed replaces records by what their sealed entries say. One that has no entry was changed in the store.
func (db *database) readSealed(ctx context.Context, all []Record) error {
	byDay := map[int64][]int{}
	for i := range all {
		day := roundDown(all[i].Created.UnixMilli(), dayLen)
		byDay[day] = append(byDay[day], i)
	}
	for _, day := range slices.Sorted(maps.Keys(byDay)) {
		ids := make([]any, 0, len(byDay[day]))
		for _, i := range byDay[day] {
			ids = append(ids, all[i].ID)
		}
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", ")
		newest, err := db.readNewest(ctx, db, day, day+dayLen, `id IN (`+marks+`)`, ids...)
		if err != nil {
			return err
		}
		for _, i := range byDay[day] {
			r := &all[i]
			e, ok := newest[r.ID]
			switch {
			case r.IsChanged:
			case !ok:
				*r = db.changedRecord(r.ID, r.Created.UnixMilli())
			default:
				*r = *e.Record.withoutForeignText()
			}
		}
	}
	return nil
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
