package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// holdStore is the part of a [Store] that is about legal holds.
type holdStore interface {
	// Holds returns the legal holds.
	Holds(ctx context.Context) (Holds, error)
	// AddHold sets a legal hold, and returns it with its number. Another one with its name is [ErrHoldExists].
	AddHold(ctx context.Context, h Hold) (Hold, error)
	// LiftHold lifts a legal hold, or returns [ErrNoHold]. by says who lifts it. Retention takes what has been due with
	// the next call, and EraseDue what erasures have left out.
	LiftHold(ctx context.Context, name, by string) error
	// CountHeld counts what Erase would leave out, by the name of the hold.
	CountHeld(ctx context.Context, q Query) ([]HeldBack, error)
	// EraseDue erases what erasures had left out for holds that are lifted now, as Erase does.
	EraseDue(ctx context.Context) (done ErasedDue, err error)
}

// Why a hold is not set or lifted.
var (
	ErrHoldExists = errors.New("journal: there is a legal hold of this name")
	ErrNoHold     = errors.New("journal: there is no legal hold of this name")
)

// ErrHoldsUnknown says that seals were changed, so that nothing may be erased.
var ErrHoldsUnknown = errors.New(
	"journal: seals are not as they were written, so legal holds are not known, and nothing was erased")

// asUnknown returns a fault of seals as [ErrHoldsUnknown], and any other error as it is.
func asUnknown(err error) error {
	if fault, isFault := errors.AsType[*faultError](err); isFault {
		return fmt.Errorf("%w: %w", ErrHoldsUnknown, fault)
	}
	return err
}

// A leftErasure is an erasure that has left something out.
type leftErasure struct {
	n int64
	leftText
}

// A heldParts is what legal holds need of the kinds of stores.
type heldParts interface {
	Store
	evidenceParts
	evidenceOf() *evidence
}

func (s *fileStore) evidenceOf() *evidence  { return &s.evidence }
func (s *tableStore) evidenceOf() *evidence { return &s.evidence }

// readHolds returns the legal holds, the oldest first, as the seals until one set them. A [*faultError] says that seals
// are not as they were written.
func (e *evidence) readHolds(ctx context.Context) (holds []Hold, seal int64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(ctx); err != nil {
		_ = e.report(err)
		return nil, 0, err
	}
	return e.keys.openHolds(&e.known), e.known.n, nil
}

// openHolds returns the legal holds that are known, the oldest first.
func (k *Keys) openHolds(known *known) (all []Hold) {
	for n, sealed := range known.holds {
		all = append(all, k.openHold(n, sealed))
	}
	slices.SortFunc(all, func(a, b Hold) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// readLeft returns the erasures that have left something out, the oldest first.
func (e *evidence) readLeft(ctx context.Context) (all []leftErasure, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(ctx); err != nil {
		return nil, e.report(err)
	}
	for n, sealed := range e.known.left {
		l := leftErasure{n: n}
		if e.keys.openWords(n, sealed, &l.leftText) { // what was sealed with other keys cannot be read, so it cannot be done
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b leftErasure) int { return cmp.Compare(a.n, b.n) })
	return all, nil
}

// addSealOf appends the seal of a statement of a hold.
func (e *evidence) addSealOf(ctx context.Context, s statement) error {
	db, err := e.parts.sealsPart(ctx, true)
	if err != nil {
		return err
	}
	s.kind, s.at = HoldSeal, time.Now()
	return db.appendSeal(ctx, db.nextSeal(s))
}

// holdsOf implements Holds of a [Store].
func holdsOf(ctx context.Context, st heldParts) (list Holds, err error) {
	e := st.evidenceOf()
	holds, _, err := e.readHolds(ctx)
	if err != nil {
		return list, asUnknown(err)
	}
	list.Data = append([]Hold{}, holds...) // an empty list, and not null
	e.mu.Lock()
	defer e.mu.Unlock()
	list.Waiting = len(e.known.left)
	for _, d := range e.known.held {
		first, _ := time.Parse(time.DateOnly, d[0]) // the seals of this journal have days
		last, _ := time.Parse(time.DateOnly, d[1])
		list.Days += int(last.Sub(first)/(24*time.Hour)) + 1
	}
	return list, nil
}

// addHold implements AddHold of a [Store].
func addHold(ctx context.Context, st heldParts, h Hold) (Hold, error) {
	e := st.evidenceOf()
	text := &holdText{
		Name: h.Name, Merchant: h.Merchant, From: h.From, To: h.To, Reason: h.Reason, By: h.By, At: time.Now().Unix(),
	}
	if h.Card != "" {
		text.Cards, text.Keys = e.keys.CardHashes(h.Card), e.keys.cardKeyNames()
	}
	for {
		if added, err := e.addHold(ctx, text); !errors.Is(err, errOtherSeal) {
			return added, asUnknown(err)
		}
	}
}

// addHold appends the seal of a hold, if there is no hold of its name and no other seal comes between.
func (e *evidence) addHold(ctx context.Context, text *holdText) (Hold, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(ctx); err != nil {
		_ = e.report(err)
		return Hold{}, err
	}
	if slices.ContainsFunc(e.keys.openHolds(&e.known), func(o Hold) bool { return o.Name == text.Name }) {
		return Hold{}, ErrHoldExists
	}
	db, err := e.parts.sealsPart(ctx, true)
	if err != nil {
		return Hold{}, err
	}
	number := e.known.n + 1
	next := db.nextSeal(statement{kind: HoldSeal, at: time.Now(), by: text.By, holdWords: holdWords{plain: text}})
	if err := db.appendSeal(ctx, func(newest *Seal) (Seal, error) {
		if newest.N != e.known.n {
			return Seal{}, errOtherSeal
		}
		return next(newest)
	}); err != nil {
		return Hold{}, err
	}
	if err := e.refresh(ctx); err != nil {
		_ = e.report(err)
		return Hold{}, err
	}
	if e.known.holds[number] == "" {
		return Hold{}, ErrNoHold // another process has lifted it
	}
	return e.keys.openHold(number, e.known.holds[number]), nil
}

// liftHold implements LiftHold of a [Store].
func liftHold(ctx context.Context, st heldParts, name, by string) error {
	e := st.evidenceOf()
	holds, _, err := e.readHolds(ctx)
	if err != nil {
		return asUnknown(err)
	}
	isAny := false
	for _, h := range holds {
		if h.Name != name {
			continue
		}
		isAny = true
		if err := e.addSealOf(ctx, statement{by: by, holdWords: holdWords{lift: h.Number}}); err != nil {
			return err
		}
	}
	if !isAny {
		return ErrNoHold
	}
	return nil
}

// heldOfQuery is what legal holds hold of a query.
type heldOfQuery struct {
	holds  []Hold
	seal   int64 // the newest seal that holds follows from
	counts []int // how many authentications each hold holds
	newest int64 // when the newest of these was made, in milliseconds
}

// findHeld counts what each hold holds of a query, as countHeld does.
func findHeld(ctx context.Context, st heldParts, q Query) (h heldOfQuery, err error) {
	h.holds, h.seal, err = st.evidenceOf().readHolds(ctx)
	h.counts = make([]int, len(h.holds))
	if err != nil || len(h.holds) == 0 {
		return h, asUnknown(err)
	}
	err = st.eachPart(ctx, func(_ string, db *database) error {
		some, last, err := db.countHeld(ctx, q, h.holds)
		h.newest = max(h.newest, last)
		for i, n := range some {
			h.counts[i] += n
		}
		return err
	})
	return h, err
}

// countHeldOf implements CountHeld of a [Store].
func countHeldOf(ctx context.Context, st heldParts, q Query) (all []HeldBack, err error) {
	h, err := findHeld(ctx, st, q)
	for i, n := range h.counts {
		if n > 0 {
			all = append(all, HeldBack{h.holds[i].Name, n})
		}
	}
	return all, err
}

// eraseUnheld erases by do what no legal hold holds. If a hold was set meanwhile, do returns errNewHold, and is called
// again with the holds of then; what was erased before stays erased.
func eraseUnheld(ctx context.Context, st heldParts, q Query,
	do func(plan erasurePlan) (authentications, records int, err error)) (authentications, records int, err error) {
	for {
		plan := erasurePlan{query: q}
		if plan.holds, plan.seal, err = beginErasure(ctx, st, q); err != nil {
			return authentications, records, err
		}
		if plan.isForgetting, err = mayForgetAll(ctx, st, q); err != nil {
			return authentications, records, err
		}
		a, r, err := do(plan)
		authentications, records = authentications+a, records+r
		if !errors.Is(err, errNewHold) {
			return authentications, records, err
		}
	}
}

// An erasurePlan is what is to be erased, and what not.
type erasurePlan struct {
	query        Query
	holds        []Hold
	seal         int64 // the newest seal that holds follows from
	isForgetting bool  // the keys of what is erased are to be forgotten
}

// beginErasure returns the holds that an erasure has to leave out, and the newest seal that they follow from. It
// remembers the erasure if they hold something of what is to be erased, before anything is erased.
func beginErasure(ctx context.Context, st heldParts, q Query) ([]Hold, int64, error) {
	e := st.evidenceOf()
	h, err := findHeld(ctx, st, q)
	if err != nil {
		return nil, 0, err
	}
	text := leftText{
		Merchant: q.Merchant, Cards: q.cardHashes(e.keys), By: cmp.Or(q.By, nodeName()),
		Until: max(time.Now().UnixMilli(), h.newest) + 1, // the clock of another node may be ahead
	}
	if !q.To.IsZero() { // The query is of an erasure that was asked for earlier.
		text.Until = q.To.UnixMilli()
	}
	for i, n := range h.counts {
		if n > 0 {
			text.Holds = append(text.Holds, h.holds[i].Number)
		}
	}
	if text.Holds == nil {
		return h.holds, h.seal, nil
	}
	left, err := e.readLeft(ctx)
	if err != nil {
		return nil, 0, err
	}
	isSame := func(l leftErasure) bool {
		return l.Merchant == text.Merchant && reflect.DeepEqual(l.Cards, text.Cards) && slices.Equal(l.Holds, text.Holds)
	}
	words := holdWords{plain: &text}
	if i := slices.IndexFunc(left, isSame); i >= 0 {
		if left[i].Until >= text.Until {
			return h.holds, h.seal, nil
		}
		words.done = left[i].n // this one takes its place
	}
	return h.holds, h.seal, e.addSealOf(ctx, statement{by: text.By, holdWords: words})
}

// An ErasedDue says what became of erasures that holds had kept back.
type ErasedDue struct {
	Authentications int
	Unforgotten     int // Unforgotten is how many of these keep their keys: see CountUnforgotten of a [Store].
}

// eraseDueOf implements EraseDue of a [Store].
func eraseDueOf(ctx context.Context, st heldParts) (done ErasedDue, err error) {
	e := st.evidenceOf()
	left, err := e.readLeft(ctx)
	if err != nil || len(left) == 0 {
		return done, err
	}
	holds, _, err := e.readHolds(ctx)
	if err != nil {
		return done, asUnknown(err)
	}
	var failed []error
	for _, l := range left {
		if slices.ContainsFunc(holds, func(h Hold) bool { return slices.Contains(l.Holds, h.Number) }) {
			continue
		}
		q := Query{Merchant: l.Merchant, hashes: l.Cards, By: l.By, To: time.UnixMilli(l.Until)}
		unforgotten, err := st.CountUnforgotten(ctx, q)
		if err != nil {
			return done, err
		}
		n, _, err := st.Erase(ctx, q)
		done.Authentications += n
		done.Unforgotten += min(n, unforgotten)
		if err != nil { // The other erasures are done all the same.
			failed = append(failed, err)
			continue
		}
		if err := e.addSealOf(ctx, statement{by: nodeName(), holdWords: holdWords{done: l.n}}); err != nil {
			return done, err
		}
	}
	return done, errors.Join(failed...)
}

// heedHolds erases what is due since a hold was lifted, and writes to the log how many days holds keep.
func (j *Journal) heedHolds(ctx context.Context) error {
	done, err := j.Store.EraseDue(ctx)
	if done.Authentications > 0 {
		j.Log.InfoContext(ctx, "journal erased what a legal hold had kept", "authentications", done.Authentications)
		if notice := j.Keys.LimitNotice(); notice != "" {
			j.Log.WarnContext(ctx, "journal keys near their limit", "what", notice)
		}
	}
	if done.Unforgotten > 0 {
		j.Log.WarnContext(ctx, "journal did not forget the keys of what it erased, for there are too many",
			"authentications", done.Unforgotten)
	}
	// An entry that does not open stays so until somebody mends its day. Other duties do not wait for that.
	if errors.Is(err, errSealed) {
		j.Log.WarnContext(ctx, "journal did not erase all that a legal hold had kept", "err", err)
	} else if err != nil {
		return err
	}
	holds, err := j.Store.Holds(ctx)
	if errors.Is(err, ErrHoldsUnknown) { // the evidence reports why
		return nil
	}
	if err == nil && holds.Days != j.toldDays {
		j.toldDays = holds.Days
		j.Log.InfoContext(ctx, "journal days kept by a legal hold", "days", holds.Days, "holds", len(holds.Data))
	}
	return err
}

// Holds implements [Store].
func (s *fileStore) Holds(ctx context.Context) (Holds, error) { return holdsOf(ctx, s) }

// AddHold implements [Store].
func (s *fileStore) AddHold(ctx context.Context, h Hold) (Hold, error) { return addHold(ctx, s, h) }

// LiftHold implements [Store].
func (s *fileStore) LiftHold(ctx context.Context, name, by string) error {
	return liftHold(ctx, s, name, by)
}

// CountHeld implements [Store].
func (s *fileStore) CountHeld(ctx context.Context, q Query) ([]HeldBack, error) {
	return countHeldOf(ctx, s, q)
}

// EraseDue implements [Store].
func (s *fileStore) EraseDue(ctx context.Context) (ErasedDue, error) { return eraseDueOf(ctx, s) }

// Holds implements [Store].
func (s *tableStore) Holds(ctx context.Context) (Holds, error) { return holdsOf(ctx, s) }

// AddHold implements [Store].
func (s *tableStore) AddHold(ctx context.Context, h Hold) (Hold, error) { return addHold(ctx, s, h) }

// LiftHold implements [Store].
func (s *tableStore) LiftHold(ctx context.Context, name, by string) error {
	return liftHold(ctx, s, name, by)
}

// CountHeld implements [Store].
func (s *tableStore) CountHeld(ctx context.Context, q Query) ([]HeldBack, error) {
	return countHeldOf(ctx, s, q)
}

// EraseDue implements [Store].
func (s *tableStore) EraseDue(ctx context.Context) (ErasedDue, error) { return eraseDueOf(ctx, s) }

// Holds implements [Store].
func (l *lazyStore) Holds(ctx context.Context) (Holds, error) {
	return askLazily(ctx, l, func(st Store) (Holds, error) { return st.Holds(ctx) })
}

// AddHold implements [Store].
func (l *lazyStore) AddHold(ctx context.Context, h Hold) (Hold, error) {
	return askLazily(ctx, l, func(st Store) (Hold, error) { return st.AddHold(ctx, h) })
}

// LiftHold implements [Store].
func (l *lazyStore) LiftHold(ctx context.Context, name, by string) error {
	return l.do(ctx, func(st Store) error { return st.LiftHold(ctx, name, by) })
}

// CountHeld implements [Store].
func (l *lazyStore) CountHeld(ctx context.Context, q Query) ([]HeldBack, error) {
	return askLazily(ctx, l, func(st Store) ([]HeldBack, error) { return st.CountHeld(ctx, q) })
}

// EraseDue implements [Store].
func (l *lazyStore) EraseDue(ctx context.Context) (ErasedDue, error) {
	return askLazily(ctx, l, func(st Store) (ErasedDue, error) { return st.EraseDue(ctx) })
}
