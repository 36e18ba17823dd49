package local

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store"
)

// RevokeKey revokes the one API key whose hash match accepts.
func RevokeKey(ctx context.Context, acts *ops.Acts, match func(hash []byte) bool) (store.Key, error) {
	noKey := errors.New("key revoke: no such key (see \"threeds key list\")")
	keys, err := acts.Store.Keys(ctx)
	if err != nil {
		return store.Key{}, err
	}
	keys = slices.DeleteFunc(keys, func(k store.Key) bool { return !match(k.Hash) })
	switch len(keys) {
	case 0:
		return store.Key{}, noKey
	case 1:
	default:
		return store.Key{}, fmt.Errorf("key revoke: %d keys begin so; give more digits", len(keys))
	}
	_, err = ops.Find("key revoke").Do(acts, ctx, Actor(), hex.EncodeToString(keys[0].Hash))
	if errors.Is(err, store.ErrNotFound) { // somebody else has just revoked it
		err = noKey
	}
	return keys[0], err
}

// AreKeysForeign reports whether a store has API keys and the secrets of a ring open none of their seals. Most likely
// the key file is that of another store.
func AreKeysForeign(ctx context.Context, st store.Store, ring *keyring.Ring) (bool, error) {
	stored, err := st.Keys(ctx)
	isSealed := func(k store.Key) bool { return account.IsSealed(ring, &k) }
	return len(stored) > 0 && !slices.ContainsFunc(stored, isSealed), err
}

// RotateKeys brings another secret of the key file into use on all nodes, and seals what lasts under it. say reports
// what happens, a line a call. write is a file that is made with all secrets, "" means none.
func RotateKeys(ctx context.Context, file, write string, say func(format string, args ...any)) error {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	return WithKeyFile(ctx, c, func(c *config.Config, st store.Store, ring *keyring.Ring) error {
		if err := Record(ctx, c, st, "key.rotate", "", nil); err != nil {
			return err
		}
		host, err := os.Hostname()
		if err != nil {
			host = "an unknown host"
		}
		rotate := rotation.Command{
			Store: st, File: c.Keys, Ring: ring, By: fmt.Sprintf("process %d on %s", os.Getpid(), host),
			Within: rotation.Within, Say: say, Write: write, Reseals: resealsOf(st),
		}
		return rotate.Run(ctx)
	})
}

// WrapKeyFiles writes the files of keys that a configuration names as its key helper says: wrapped, or in the clear. No
// rotation is under way meanwhile. say reports what happens, a line a call. Nodes that serve have the keys in memory.
func WrapKeyFiles(ctx context.Context, file string, say func(format string, args ...any)) error {
	c, err := config.Read(file)
	if err != nil {
		return err
	}
	if c.Helper == nil {
		return errors.New("key wrap: the configuration has no key_helper")
	}
	defer c.Helper.Close()
	err = withStore(ctx, c, func(st store.Store) error {
		var changed []string
		err := rotation.Exclude(ctx, st, func() (err error) {
			changed, err = wrapKeyFiles(c, say)
			return err
		})
		if len(changed) > 0 {
			if failed := Record(ctx, c, st, "key.wrap", "", changed); failed != nil {
				err = errors.Join(err, fmt.Errorf("done, but the audit trail does not say so: %w", failed))
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("key wrap: %w", err)
	}
	return nil
}

// wrapKeyFiles is WrapKeyFiles for a configuration that was read. It returns the files that it has changed, also after
// an error.
func wrapKeyFiles(c *config.Config, say func(format string, args ...any)) (changed []string, err error) {
	as := "wrapped by the key " + c.KeyHelper.WrappingKey
	if c.KeyHelper.WrappingKey == "" {
		as = "in the clear"
	}
	for _, f := range []struct{ path, context string }{
		{c.Keys, keyring.Context}, {c.Journal.Keys, journal.KeysContext},
	} {
		isChanged, err := c.Vault().RewrapAll(f.path, f.context)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			say("%s is not there", f.path)
		case err != nil:
			return changed, err
		case isChanged:
			say("%s is now %s", f.path, as)
			changed = append(changed, f.path)
		default:
			say("%s was %s before", f.path, as)
		}
	}
	return changed, nil
}

// resealsOf returns functions that seal rows of a store again: the rows that live longer than a secret of the key file,
// except API keys and merchants.
func resealsOf(st store.Store) []rotation.Reseal {
	objects := func(kind string) func(context.Context, *keyring.Ring) (int, int, error) {
		return func(ctx context.Context, ring *keyring.Ring) (sealed, refused int, err error) {
			return store.ResealObjects(ctx, st, kind, ring)
		}
	}
	return []rotation.Reseal{
		{One: "directory with client certificates", Many: "directories with client certificates",
			Do: objects(store.CertificateObjects)},
		{One: "token of the admin API", Many: "tokens of the admin API", Do: objects(store.TokenObjects)},
		{One: "operator of the console", Many: "operators of the console", Do: objects(store.UserObjects)},
		{One: "disabled merchant", Many: "disabled merchants", Do: objects(store.DisabledObjects)},
		{One: "webhook endpoint", Many: "webhook endpoints",
			Do: func(ctx context.Context, ring *keyring.Ring) (sealed, refused int, err error) {
				return webhook.ResealEndpoints(ctx, st, ring)
			}},
	}
}
