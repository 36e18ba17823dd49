package operator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// scrubbed is the action of an entry that says in which entries before it card numbers were masked.
const scrubbed = "audit.scrub"

// scrubPage is how many masked entries one entry of the action scrubbed names at most.
const scrubPage = 100

// A maskedEntry is an entry in which card numbers were masked, as the trail itself says so.
type maskedEntry struct {
	Seq    int64           `json:"seq"`
	Digest string          `json:"digest"` // hexadecimal, of the entry as it was written
	Masked json.RawMessage `json:"masked"` // the entry as it is now

	row store.AuditEntry // as it was read
}

// findCards returns the entries that have a card number in them, masked.
func (s *Service) findCards(ctx context.Context) (found []maskedEntry, err error) {
	t := trail{service: s}
	err = t.each(ctx, func(row store.AuditEntry) error {
		if masked := cardnumber.ScrubJSON(row.Data); !bytes.Equal(masked, row.Data) {
			found = append(found, maskedEntry{row.Seq, hex.EncodeToString(digestOf(&row)), masked, row})
		}
		return nil
	})
	return found, err
}

// CountCards returns how many entries of the audit trail have a card number in them. Only those that an earlier release
// has written can have one.
func (s *Service) CountCards(ctx context.Context) (int, error) {
	found, err := s.findCards(ctx)
	return len(found), err
}

// MaskCards masks the card numbers in entries of the audit trail, and returns how many entries it has changed. First an
// entry says which ones, with their digests and with what is left of them: by says who does it. Each keeps its digest and
// its link, so that the chain and the signatures still verify, and an export has no content for it.
func (s *Service) MaskCards(ctx context.Context, rows store.Archive, by Entry) (int, error) {
	found, err := s.findCards(ctx)
	if err != nil {
		return 0, err
	}
	done := 0
	for page := range slices.Chunk(found, scrubPage) {
		by.Action, by.Object, by.After = scrubbed, "", map[string]any{"entries": page}
		if err := s.Record(ctx, by); err != nil {
			return done, err
		}
		err := rows.ChangeRows(ctx, func(tx store.RowTx) error {
			for _, m := range page {
				if err := tx.MaskAudit(ctx, m.Seq, slices.Concat(digestOf(&m.row), LinkOf(m.row.Link)), m.Masked); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return done, err
		}
		done += len(page)
	}
	return done, nil
}

// maskedLinkLen is the length of what a store keeps as the link of a masked entry: the digest of the entry as it was
// written, and its link.
const maskedLinkLen = 2 * sha256.Size

// isMasked reports whether card numbers in an entry were masked.
func isMasked(row *store.AuditEntry) bool { return len(row.Link) == maskedLinkLen }

// digestOf returns the digest of an entry as it was written.
func digestOf(row *store.AuditEntry) []byte {
	if isMasked(row) {
		return row.Link[:sha256.Size]
	}
	salt, _ := splitLink(row.Link)
	return journal.DigestOf(salt, row.Data)
}

// readMasked returns the digests of the masked entries that the data of an entry names, by their number.
func readMasked(data []byte) map[int64]string {
	var e struct {
		Action string `json:"action"`
		After  struct {
			Entries []maskedEntry `json:"entries"`
		} `json:"after"`
	}
	if !bytes.Contains(data, []byte(scrubbed)) || json.Unmarshal(data, &e) != nil || e.Action != scrubbed {
		return nil
	}
	all := map[int64]string{}
	for _, m := range e.After.Entries {
		all[m.Seq] = m.Digest
	}
	return all
}
