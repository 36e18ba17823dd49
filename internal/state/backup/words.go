package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/base/terminal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store"
)

// Describe returns how many rows there are of each kind, in words.
func (c Counts) Describe() string {
	all := []string{terminal.Count(c[store.KeyRows], "API key")}
	if n := c[store.RevokedRows]; n > 0 {
		all = append(all, terminal.Count(n, "revoked API key"))
	}
	if n := c[store.MerchantRows]; n > 0 {
		all = append(all, terminal.Count(n, "merchant"))
	}
	if n := c[store.EndpointRows]; n > 0 {
		all = append(all, terminal.Count(n, "webhook endpoint"))
	}
	switch n := c[store.ObjectRows]; {
	case n == 1:
		all = append(all, "1 operator, token, certificate or disabled merchant")
	case n > 1:
		all = append(all, fmt.Sprintf("%d operators, tokens, certificates and disabled merchants", n))
	}
	all = append(all, terminal.Count(c[store.RangeRows], "generation")+" of card ranges")
	if n := c[store.AuditRows]; n > 0 {
		all = append(all, terminal.Count(n, "entry")+" of the audit trail")
	}
	if n := c[EntryRows]; n > 0 {
		all = append(all, terminal.Count(n, "entry")+" of the journal")
	}
	return strings.Join(all, ", ")
}

// WarnOfMissingSecrets warns if a key file, which a vault may seal, lacks a secret that the rows of the store need.
func WarnOfMissingSecrets(ctx context.Context, archive store.Archive, vault keyfile.Vault, file string,
	warn func(format string, args ...any)) {
	const cure = "Copy the key file of a node that has it, or run \"threeds key rotate --write FILE\", and back that file up"
	st, ok := archive.(store.Store)
	if !ok {
		return
	}
	keys, err := st.Keys(ctx)
	var ring *keyring.Ring
	if err == nil {
		ring, err = keyring.LoadIn(vault, file)
		if len(keys) == 0 && errors.Is(err, fs.ErrNotExist) {
			return // nothing is sealed yet
		}
	}
	if err != nil {
		warn("it is not known whether the key file opens this backup: %v", err)
		return
	}
	err = rotation.CheckFile(ctx, st, ring)
	missing, isMissing := errors.AsType[*rotation.MissingError](err)
	if isMissing && missing.From != "" {
		warn(
			"the secret %s is in use, and the key file %s lacks it. The backup has it sealed under secret %s: keep this key file with\n"+
				"this backup. %s", missing.ID, file, missing.From, cure)
		ring, err = rotation.Extend(ctx, st, ring)
	} else if isMissing {
		warn("the secret %s is in use, and the key file %s lacks it: it does not open this backup. %s",
			missing.ID, file, cure)
		return
	}
	if err != nil {
		warn("it is not known whether the key file opens this backup: %v", err)
		return
	}
	lacking := make(map[string]int)
	for _, k := range keys {
		if id := keyring.IDOfSeal(k.Seal); id != "" && !ring.Has(id) {
			lacking[id]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(lacking)) {
		warn("%s sealed under secret %s, and the key file %s lacks it: it does not open them. "+
			"Copy the key file of a node that has it, and back that file up", terminal.Count(lacking[id], "API key"), id, file)
	}
}

// CheckKeyFile returns an error if a key file opens none of the API keys of a store, so that they are of no use.
func CheckKeyFile(ctx context.Context, archive store.Archive, vault keyfile.Vault, file string) error {
	st, ok := archive.(store.Store)
	if !ok {
		return nil
	}
	keys, err := st.Keys(ctx)
	if err != nil || len(keys) == 0 {
		return err
	}
	const cure = `put the key file of the time of the backup in its place, and run "threeds key list"`
	ring, err := keyring.LoadIn(vault, file)
	if err != nil {
		return fmt.Errorf("the key file %s cannot be read, so nothing opens %s: %s: %w",
			file, terminal.Count(len(keys), "API key"), cure, err)
	}
	if extended, err := rotation.Extend(ctx, st, ring); err == nil {
		ring = extended
	}
	if slices.ContainsFunc(keys, func(k store.Key) bool { return k.Seal == nil || ring.Has(keyring.IDOfSeal(k.Seal)) }) {
		return nil
	}
	return fmt.Errorf("the key file %s opens none of %s: %s", file, terminal.Count(len(keys), "API key"), cure)
}

// WarnOfMissingDays warns if the file of the journal's keys lacks those of entries that were backed up.
func (j *Journal) WarnOfMissingDays(warn func(format string, args ...any)) {
	if days := j.MissingDays(); len(days) > 0 {
		warn("journal-keys.json of this machine lacks the keys of %s of the journal (%s to %s): with it nobody\n"+
			"reads these entries of the backup. Copy the file of the node that wrote them, and back that file up",
			terminal.Count(len(days), "day"), days[0], days[len(days)-1])
	}
}

// Spool copies a stream into a file that has no name, so that it can be read twice.
func Spool(from io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "threeds-restore-*") // mode 0600
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = io.Copy(f, from)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
