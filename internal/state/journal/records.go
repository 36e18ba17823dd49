package journal

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"
)

// buckets is how many buckets there are of times from AReq to ARes: those until hours.
const buckets = 200

// bucketOf is the bucket of a time from AReq to ARes.
func bucketOf(ms int64) int {
	if ms <= 1 {
		return 0
	}
	return min(int(math.Ceil(math.Log(float64(ms))/math.Log(1.1))), buckets-1)
}

// upsertRecords has the records of entries take the place of older ones.
func (db *database) upsertRecords(ctx context.Context, tx *sql.Tx, entries []Entry) error {
	newest := map[string]int{} // indexes of entries
	var order []string
	for i := range entries {
		e := &entries[i]
		if rankOf(e.Kind) < 0 {
			continue // a moment says nothing of the record
		}
		n, ok := newest[e.Record.ID]
		if !ok {
			order = append(order, e.Record.ID)
		}
		if !ok || rankOf(e.Kind) >= rankOf(entries[n].Kind) {
			newest[e.Record.ID] = i
		}
	}
	if len(order) == 0 {
		return nil
	}
	slices.Sort(order) // nodes that write the same records lock them in the same order
	rows, hours := make([][]any, len(order)), map[int64]bool{}
	for i, id := range order {
		n := newest[id]
		row := columnsOf(&entries[n])
		db.row = rowText(db.row[:0], row)
		rows[i] = append(row, db.ours.mac(db.row))
		hours[entries[n].Record.Created.UnixMilli()/hourLen] = true
	}
	if err := db.putRows(ctx, tx, insertRecords, rows, replaceRecords); err != nil {
		return err
	}
	return db.markDirty(ctx, tx, hours, db.writer)
}

// recordColumns are those of a row of journal_records.
var recordColumns = []string{
	"made", "id", "rank", "kind", "api", "merchant", "reference", "scheme", "bin", "last4", "version", "channel", "status",
	"result", "trans_status", "reason", "acs", "ds_trans_id", "acs_trans_id", "challenged", "bucket", "card", "fault",
	"unkept", "mac",
}

// insertRecords and replaceRecords are the two ends of the statement that adds rows to journal_records. An older record
// gives way to a newer one.
var (
	insertRecords  = `INSERT INTO journal_records (` + strings.Join(recordColumns, ", ") + `) `
	replaceRecords = ` ON CONFLICT (made, id) DO UPDATE SET ` + replaceAll(recordColumns[2:]) +
		` WHERE excluded.rank >= journal_records.rank`
)

// replaceAll returns the assignments that replace columns.
func replaceAll(columns []string) string {
	var all []string
	for _, column := range columns {
		all = append(all, column+" = excluded."+column)
	}
	return strings.Join(all, ", ")
}

// columnsOf returns the columns of the row of an entry, without their MAC. They are what searches and counts ask for. A
// record itself is in the sealed entry alone.
func columnsOf(e *Entry) []any {
	r := &e.Record
	challenged := int64(0)
	if r.Challenged {
		challenged = 1
	}
	// Nothing came of a request that has a NamedID, so no directory server has given it an id.
	dsTransID := cmp.Or(r.DSTransID, strings.ToLower(r.NamedID))
	row := make([]any, 0, len(recordColumns))
	return append(row,
		r.Created.UnixMilli(), r.ID, int64(rankOf(e.Kind)), string(e.Kind), r.API, r.Merchant, r.Reference, r.Card.Scheme,
		r.Card.BIN, r.Card.Last4, r.MessageVersion, r.DeviceChannel, r.Status, r.Result, r.TransStatus, r.TransStatusReason,
		r.ACS, dsTransID, r.ACSTransID, challenged, int64(bucketOf(r.DurationMS)), e.CardHash, faultText(r),
		unkeptText(r.Unkept))
}

// faultText is what counts ask of the error of a record: its code, and which component found it.
func faultText(r *Record) string {
	if r.ErrorCode == "" && r.ErrorComponent == "" {
		return ""
	}
	return r.ErrorCode + " " + r.ErrorComponent
}
