package linear

import (
	"fmt"
	"math"
	"strings"

	"github.com/anishathalye/porcupine"
)

// never is the end of a call whose outcome is unknown.
const never = math.MaxInt64

// An input is a call. When the store read its clock during the call, that was between Lo and
// the Hi of the output, in milliseconds since 1970.
type input struct {
	Call
	Lo        int64
	Contended bool // a PutSnapshot of the scheme was under way meanwhile
}

type output struct {
	Answer
	Hi int64
}

// model makes a model for porcupine out of a step function, which returns the states that
// may follow a state after a call with this answer; none if the answer contradicts the
// state.
func model[S comparable](step func(s S, c input, a output) []S) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { var s S; return []any{s} },
		Step: func(state, in, out any) (next []any) {
			for _, s := range step(state.(S), in.(input), out.(output)) {
				next = append(next, s)
			}
			return next
		},
		DescribeOperation: func(in, out any) string {
			c, a := in.(input), out.(output)
			return fmt.Sprintf("%v [%d] → %v [%d]", c.Call, c.Lo, a.Answer, a.Hi)
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

// when returns s as the only next state if ok, else none.
func when[S any](ok bool, s S) []S {
	if !ok {
		return nil
	}
	return []S{s}
}

// A txn is the state of a transaction.
type txn struct {
	There bool // until it is swept, also when it has expired
	Value string
	Until int64
}

func stepTxn(s txn, c input, a output) []txn {
	written := txn{There: true, Value: c.Value, Until: c.Until}
	alive := s.There && c.Lo < s.Until  // at some moment of the call
	dead := !s.There || a.Hi >= s.Until // the same
	switch c.Kind {
	case Create:
		switch a.Outcome {
		case Done:
			return when(!s.There, written)
		case Exists:
			return when(s.There, s)
		case Unknown:
			if !s.There {
				return []txn{written}
			}
			return []txn{s}
		}
	case Get, Update:
		saw := alive && a.Value == s.Value && a.Until == s.Until
		switch a.Outcome {
		case Done:
			if c.Kind == Get {
				return when(saw, s)
			}
			return when(saw && a.Seen, written)
		case Refused:
			return when(saw, s)
		case NotFound:
			return when(dead, s)
		case Unknown:
			if a.Seen && saw || a.Lost && alive {
				return []txn{written}
			}
			return []txn{s}
		}
	case Sweep:
		// It need not delete what another node is deleting.
		if s.There && c.Until >= s.Until && a.Hi >= s.Until {
			return []txn{s, {}}
		}
		return []txn{s}
	}
	return when(a.Outcome == Cancelled, s)
}

// A key is the state of an API key.
type key struct {
	There bool
	Value string
}

func stepKey(s key, c input, a output) []key {
	unknown := a.Outcome == Unknown
	switch {
	case c.Kind == PutKey && !s.There && (unknown || a.Outcome == Done):
		return []key{{There: true, Value: c.Value}}
	case c.Kind == RevokeKey && s.There && (unknown || a.Outcome == Done):
		return []key{{}}
	case c.Kind == PutKey && a.Outcome == Exists:
		return when(s.There, s)
	case c.Kind == RevokeKey && a.Outcome == NotFound, c.Kind == Key && a.Outcome == NotFound:
		return when(!s.There, s)
	case c.Kind == Key && a.Outcome == Done:
		return when(s.There && s.Value == a.Value, s)
	}
	return when(unknown || a.Outcome == Cancelled, s)
}

// A lease is the state of a lease, and of what is written under it.
type lease struct {
	Token  int64  // of the newest holding if Exact, else that is at least this
	Exact  bool   // false after an Acquire of unknown outcome
	Holder string // "": released
	Lo, Hi int64  // it expires between these

	Set   bool // PutState has been called
	Value string

	Newest    int64  // generation
	Snapshots string // those that are kept, see generation
}

// good reports whether the call comes with the newest lease.
func (s lease) good(c Call) bool { return s.Exact && s.Holder == c.Holder && s.Token == c.Token }

func stepLease(s lease, c input, a output) []lease {
	switch c.Kind {
	case Acquire:
		return s.acquire(c, a)
	case Release:
		if a.Outcome != Cancelled && s.good(c.Call) {
			s.Holder = ""
		}
		return []lease{s}
	case PutState:
		switch {
		case a.Outcome == Fenced:
			return when(!s.good(c.Call), s)
		case s.good(c.Call) && (a.Outcome == Done || a.Outcome == Unknown):
			s.Set, s.Value = true, c.Value
			return []lease{s}
		}
	case State:
		if a.Outcome == NotFound {
			return when(!s.Set, s)
		}
		return when(s.Set && s.Value == a.Value, s)
	case PutSnapshot:
		newer := c.Generation > s.Newest
		switch {
		case a.Outcome == Fenced:
			return when(!s.good(c.Call) || c.Contended, s)
		case a.Outcome == Exists:
			return when(!newer, s)
		case newer && s.good(c.Call) && (a.Outcome == Done || a.Outcome == Unknown):
			s.Newest = c.Generation
			kept := strings.SplitAfterN(generation(c.Generation, c.Value)+s.Snapshots, " ", keep+1)
			s.Snapshots = strings.Join(kept[:min(keep, len(kept))], "")
			return []lease{s}
		}
	case Snapshots:
		return when(s.Snapshots == a.Value, s)
	case OpenSnapshot:
		if a.Outcome == NotFound {
			return when(!strings.Contains(" "+s.Snapshots, fmt.Sprintf(" %d=", c.Generation)), s)
		}
		return when(strings.Contains(" "+s.Snapshots, " "+a.Value), s)
	}
	return when(a.Outcome == Unknown || a.Outcome == Cancelled, s)
}

func (s lease) acquire(c input, a output) (next []lease) {
	mine := s.Holder == c.Holder && c.Lo < s.Hi // at some moment of the call
	free := s.Holder == "" || a.Hi >= s.Lo      // the same
	held := s.Holder != "" && s.Holder != c.Holder && c.Lo < s.Hi
	took := s
	took.Holder, took.Exact = c.Holder, true
	switch a.Outcome {
	case Done:
		if expires := a.Until - c.TTL; expires < c.Lo || expires > a.Hi {
			return nil
		}
		took.Token, took.Lo, took.Hi = a.Token, a.Until, a.Until
		renewed := mine && (a.Token == s.Token || !s.Exact && a.Token > s.Token)
		return when(renewed || free && a.Token > s.Token, took)
	case Held:
		return when(held, s)
	case Unknown:
		took.Lo, took.Hi = c.Lo+c.TTL, never
		if mine {
			took.Token, took.Exact = s.Token, s.Exact
			next = append(next, took)
		}
		if free {
			took.Token, took.Exact = s.Token+1, false
			next = append(next, took)
		}
		if next == nil {
			next = []lease{s}
		}
		return next
	}
	return when(a.Outcome == Cancelled, s)
}
