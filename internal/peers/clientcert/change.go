package clientcert

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// maxRequests is how many keys of one directory wait for their certificates. A further one takes the place of the
	// oldest.
	maxRequests = 4

	// changeTTL is how long a change that was cut off keeps others out.
	changeTTL = 15 * time.Second

	// maxTries is how often a change is tried while a rotation seals the row again.
	maxTries = 5
)

// A Recorder writes down that a change is about to happen. It is called after the change was found good and before it
// is made. An error keeps the change from being made.
type Recorder func(before, after Status) error

func isRefusal(err error, rule string) bool {
	refusal, ok := errors.AsType[*RefusalError](err)
	return ok && refusal.Rule == rule
}

// read returns the row of a scheme and what is in it. The row is nil if there is none.
func (s *Service) read(ctx context.Context, scheme string) (*store.Object, state, error) {
	row, err := s.Store.Object(ctx, store.CertificateObjects, scheme)
	if errors.Is(err, store.ErrNotFound) {
		return nil, state{}, nil
	}
	if err != nil {
		return nil, state{}, err
	}
	st, err := s.open(&row)
	if err != nil {
		return nil, state{}, err
	}
	return &row, st, nil
}

// change calls change on the state of a directory and stores the result. No other change of the directory comes
// between.
func (s *Service) change(ctx context.Context, scheme string, record Recorder,
	change func(*state) error) (after Status, err error) {
	lease, err := s.Store.Acquire(ctx, "certificate/"+scheme, rand.Text(), changeTTL)
	if errors.Is(err, store.ErrHeld) {
		return Status{},
			refuse("busy", "another operator is changing the certificates of %s: try again in some seconds", scheme)
	}
	if err != nil {
		return Status{}, err
	}
	defer func() { _ = s.Store.Release(context.WithoutCancel(ctx), lease) }() // else it ends by itself
	row, was, err := s.read(ctx, scheme)
	if err != nil {
		return Status{}, err
	}
	next := was.settled(s.Now())
	before := next.status(scheme)
	next.Requests = slices.Clone(next.Requests)
	if err := change(&next); err != nil {
		return Status{}, err
	}
	after = next.status(scheme)
	if err := record(before, after); err != nil {
		return Status{}, err
	}
	return after, s.write(ctx, scheme, row, was, next)
}

// write replaces one state by another. In the meantime a rotation of the key file may have sealed the row again.
func (s *Service) write(ctx context.Context, scheme string, row *store.Object, was, next state) error {
	for range maxTries {
		to := store.Object{Kind: store.CertificateObjects, ID: scheme}
		if err := s.seal(&to, &next); err != nil {
			return err
		}
		var err error
		if row == nil {
			err = s.Store.AddObject(ctx, to)
		} else {
			err = s.Store.ChangeObject(ctx, to, row.Data)
		}
		if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrExists) {
			return err
		}
		var now state
		if row, now, err = s.read(ctx, scheme); err != nil {
			return err
		}
		if !reflect.DeepEqual(now, was) {
			break
		}
	}
	return refuse("busy", "another operator has changed the certificates of %s meanwhile: nothing was changed", scheme)
}

func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Second) }

// Request makes a key and returns its certificate signing request in PEM. The key stays in the row, sealed.
func (s *Service) Request(ctx context.Context, scheme string, spec Spec,
	record Recorder) (csr []byte, after Status, err error) {
	made, err := newRequest(spec)
	if err != nil {
		return nil, Status{}, err
	}
	after, err = s.change(ctx, scheme, record, func(st *state) error {
		made.Made = s.now()
		st.Requests = append([]request{made}, st.Requests[:min(len(st.Requests), maxRequests-1)]...)
		return nil
	})
	if err != nil {
		return nil, Status{}, err
	}
	return encodeCSR(made.CSR), after, nil
}

// Install reads a certificate from a PEM file. Its key is one that waits for a certificate, or that of a present
// certificate. It becomes the next certificate and replaces an earlier next one. At says when it comes into use; zero
// means that Activate decides. The chain may end in one of roots or in a CA certificate of the file.
func (s *Service) Install(ctx context.Context, scheme string, file []byte, at time.Time, roots []*x509.Certificate,
	record Recorder) (Status, error) {
	chain, err := parseChain(file)
	if err != nil {
		return Status{}, err
	}
	return s.change(ctx, scheme, record, func(st *state) error {
		key, used := st.findKey(chain[0].PublicKey)
		if key == nil {
			return refuse("key",
				"the certificate is for another key than those that wait here%s: send the CSR of \"cert request\" to the CA",
				st.waitingKeys())
		}
		now := s.Now()
		if !at.IsZero() && !at.After(now) {
			return refuse("time", "the time %s is over: leave it out, and activate the certificate when it is to be used",
				at.UTC().Format(time.RFC3339))
		}
		from := now
		if !at.IsZero() {
			from = at
		}
		if err := checkChain(chain, roots, from); err != nil {
			return err
		}
		next := &pair{Key: key, Installed: s.now()}
		for _, cert := range chain {
			next.Chain = append(next.Chain, cert.Raw)
		}
		st.Next, st.At = next, at.UTC()
		if used >= 0 {
			st.Requests = slices.Delete(st.Requests, used, used+1)
		}
		return nil
	})
}

// Activate brings the next certificate into use immediately.
func (s *Service) Activate(ctx context.Context, scheme string, record Recorder) (Status, error) {
	return s.change(ctx, scheme, record, func(st *state) error {
		if st.Next == nil {
			return refuse("state", "no certificate of %s waits to be activated: install one", scheme)
		}
		if err := checkPairDates(st.Next, s.Now()); err != nil {
			return err
		}
		st.At = s.Now()
		*st = st.settled(st.At)
		st.Current.Since = s.now()
		return nil
	})
}

// Rollback brings the certificate into use that was in use before the current one, which takes its place. It calls off
// a change that is planned: the next certificate stays installed.
func (s *Service) Rollback(ctx context.Context, scheme string, record Recorder) (Status, error) {
	return s.change(ctx, scheme, record, func(st *state) error {
		if st.Previous == nil {
			return refuse("state", "%s has no certificate before the current one", scheme)
		}
		if err := checkPairDates(st.Previous, s.Now()); err != nil {
			return err
		}
		before := *st.Previous
		before.Since = s.now()
		st.Current, st.Previous, st.At = &before, st.Current, time.Time{}
		return nil
	})
}

func checkPairDates(p *pair, now time.Time) error {
	leaf, err := p.leaf()
	if err != nil {
		return err
	}
	return checkDates(leaf, "the certificate", now)
}

// Reseal seals the rows again that are sealed under a previous secret of the ring. It returns how many rows cannot be
// opened. Rotations of the key file call it.
func Reseal(ctx context.Context, st store.Objects, ring Ring) (sealed, refused int, err error) {
	sealed, refused, err = store.ResealObjects(ctx, st, store.CertificateObjects, ring)
	if err != nil {
		return 0, 0, fmt.Errorf("client certificates: %w", err)
	}
	return sealed, refused, nil
}

// A Ring has the secrets that rows are sealed under.
type Ring = store.ResealRing
