package server

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/state/cluster"
)

const (
	// problemInterval is how often a node looks whether all is well with it.
	problemInterval = 5 * time.Second

	// keepProblems is how long a node remembers what is over.
	keepProblems = 24 * time.Hour

	// maxProblems is how many problems a node remembers. What is over gives way first.
	maxProblems = 50

	// againWithin is how soon after its end a problem is taken for the same one when it comes back.
	againWithin = time.Minute
)

// A problemLog remembers since when a part of this node has not been well, and for a day what is over. Its zero value
// is ready to use, and safe for concurrent use.
type problemLog struct {
	mu       sync.Mutex
	all      []cluster.Problem
	hasBegun bool // the node has been well enough to serve
}

// note takes what is wrong at a time, by part, and returns the problems that have begun or are over. What is wrong
// while the node starts is forgotten when it is over.
func (l *problemLog) note(problems map[string]string, isStarting bool, now time.Time) (changed []cluster.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = now.UTC().Truncate(time.Second)
	known := map[string]bool{}
	for i := range l.all {
		p := &l.all[i]
		text := problems[p.Part]
		switch isAgain := !p.Over.IsZero() && now.Sub(p.Over) < againWithin; {
		case known[p.Part], text == "" && !p.Over.IsZero(), text != "" && !p.Over.IsZero() && !isAgain:
			continue
		case text == "":
			p.Over = now
			changed = append(changed, *p)
			continue
		default:
			p.Text, p.Over = text, time.Time{}
			if isAgain {
				changed = append(changed, *p)
			}
		}
		known[p.Part] = true
	}
	for _, part := range slices.Sorted(maps.Keys(problems)) {
		if !known[part] && problems[part] != "" {
			p := cluster.Problem{Part: part, Text: problems[part], Since: now}
			l.all, changed = append(l.all, p), append(changed, p)
		}
	}
	l.all = slices.DeleteFunc(l.all, func(p cluster.Problem) bool {
		return !p.Over.IsZero() && (!l.hasBegun || now.Sub(p.Over) >= keepProblems)
	})
	for len(l.all) > maxProblems {
		i := max(0, slices.IndexFunc(l.all, func(p cluster.Problem) bool { return !p.Over.IsZero() }))
		l.all = slices.Delete(l.all, i, i+1)
	}
	l.hasBegun = l.hasBegun || !isStarting
	return changed
}

// isBegun reports whether the node has been well enough to serve.
func (l *problemLog) isBegun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hasBegun
}

// list returns all problems, the oldest first.
func (l *problemLog) list() []cluster.Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// watchProblems notes what is not well with this node, until ctx ends.
func (s *Server) watchProblems(ctx context.Context) {
	for isRunning := true; isRunning; isRunning = tasks.Sleep(ctx, problemInterval) {
		if s.noteProblems() && s.follower != nil {
			s.follower.TellSoon()
		}
	}
}

// noteProblems notes what is not well with this node, and reports whether that has changed. It logs each change.
func (s *Server) noteProblems() (isChanged bool) {
	if s.isClosing.Load() {
		return false // that it ends is no problem
	}
	problems := maps.Clone(s.console.Problems())
	if problems == nil {
		problems = map[string]string{}
	}
	rt := s.activeRuntime()
	for _, p := range rt.cfg.Peers {
		if state := rt.client.Breaker(p.Scheme); state.Open {
			problems[cluster.WayTo+p.Scheme] = state.Fault
		}
	}
	isStarting, hasBegun := problems["directories"] != "", s.problems.isBegun()
	changed := s.problems.note(problems, isStarting, s.timestamp())
	for _, p := range changed {
		switch {
		case isStarting, !hasBegun && !p.Over.IsZero():
		case p.Over.IsZero():
			s.cfg.Log.Info("a part of the node is not well", "part", p.Part, "problem", p.Text)
		default:
			s.cfg.Log.Info("a part of the node is well again", "part", p.Part, "since", p.Since)
		}
	}
	return len(changed) > 0
}

// describeStoreProblem says in the words of the overview what is not well with the store, for pages that cannot read
// it. Both texts are empty if nothing is known.
func (s *Server) describeStoreProblem() (title, text string) {
	for _, p := range s.problems.list() {
		if p.Part == "store" && p.Over.IsZero() {
			n := admin.DescribeProblem(&p)
			return n.Title + ", since " + p.Since.UTC().Format("15:04:05 UTC"),
				n.Text + " The node goes on by itself when the store is well again. Restart nothing."
		}
	}
	return "", ""
}

// keepNotices keeps for the console what needs attention and what is over, until ctx ends. Of several nodes one does
// so.
func (s *Server) keepNotices(ctx context.Context) {
	if s.adminAPI == nil {
		return
	}
	var throttle obs.LogThrottle
	throttle.Interval = time.Minute
	holder := rand.Text()
	for wait := admin.NoticeInterval; tasks.Sleep(ctx, wait); {
		began := time.Now()
		err := s.adminAPI.KeepNotices(ctx, holder)
		// A large journal is read at most a twentieth of the time.
		wait = min(max(admin.NoticeInterval, 20*time.Since(began)), 3*admin.NoticeInterval)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if others, ok := throttle.Due(s.timestamp()); ok {
			s.cfg.Log.Warn("what needs attention is not kept for the console", "err", err, "others", others)
		}
	}
}

// status returns how this node is.
func (s *Server) status() cluster.Status {
	id := s.identity()
	return cluster.Status{
		Release: id.Build, Since: s.began.UTC().Truncate(time.Second), IsReady: s.console.Ready(),
		IsDraining: s.isClosing.Load(), Config: id.Config, JournalKeys: id.JournalKeyFile, Problems: s.problems.list(),
	}
}

// members returns the nodes of the store. A server that tells others nothing is the only one.
func (s *Server) members(ctx context.Context) ([]cluster.Member, error) {
	now := s.timestamp()
	if s.follower == nil {
		note := cluster.Note{File: s.ring.Load().KeyIDs().Current, Status: s.status()}
		return []cluster.Member{cluster.NewMember("this node", note, now, now)}, nil
	}
	return cluster.Members(ctx, s.db, now)
}
