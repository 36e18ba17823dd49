package crash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// crashes is how many crashes a test makes: CRASH says how many kills, and n is the share of a test when they are 200.
// Without it they are 20.
func crashes(t *testing.T, n int) int {
	t.Helper()
	if text := os.Getenv("CRASH"); text != "" {
		kills, err := strconv.Atoi(text)
		if err != nil || kills < 1 {
			t.Fatalf("CRASH=%s is not a number of kills", text)
		}
		return max(1, n*kills/ciKills)
	}
	return max(1, n/10)
}

const ciKills = 200

// A killPlan is what killLoop does.
type killPlan struct {
	kills    int
	store    string         // lines of the configuration
	database *pgtest.Server // killed too; nil: there is none
	share    int            // of the kills one in so many is the database's
	env      []string
	before   func() // ahead of the first start; nil: nothing
}

// mixed is a directory server's answers: three challenges, and then an end without one,
// which is written in another way and tried again later, as what has failed is.
func mixed() func(areq rig.Object) (int, []byte) {
	var n atomic.Int64
	return func(areq rig.Object) (int, []byte) {
		if n.Add(1)%4 == 0 {
			return 200, rig.Marshal(rig.ARes(areq, "Y"))
		}
		return rig.AnswerChallenge(areq)
	}
}

// killLoop kills a server again and again, at random moments under concurrent
// challenges.
func killLoop(t *testing.T, plan killPlan) *rig.Ledger {
	t.Helper()
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(mixed())
	v := rig.NewVictimAt(t, ca, p, plan.store, plan.env...)
	if plan.before != nil {
		plan.before()
	}
	led := rig.NewLedger(p)
	random := rand.New(rand.NewPCG(1, 2))
	v.Start()
	for i := range plan.kills {
		v.UnderLoad(led, func() {
			some := led.Answered("RReq RRes") + random.IntN(16)
			waittest.Until(t, "results", func() bool { return led.Answered("RReq RRes") >= some })
			time.Sleep(time.Duration(random.Int64N(int64(10 * time.Millisecond)))) // any moment will do
			if plan.database == nil || i%plan.share != 0 {
				v.Kill()
			} else if err := plan.database.Halt(); err != nil {
				t.Fatal(err)
			}
		})
		if v.Cmd == nil {
			v.Start()
		} else {
			if err := plan.database.Start(); err != nil {
				t.Fatal(err)
			}
			waittest.Until(t, "readiness", v.IsReady)
		}
		v.Check(led, 10)
	}
	v.Kill()
	v.Start()
	v.Check(led, math.MaxInt)
	return led
}

// TestCrashKill kills the server, and with PostgreSQL that too, with SIGKILL at
// random moments under concurrent challenges: no acknowledged result may be lost or
// changed (I1, I2), and no id may have sent a second AReq (I5), though every /auth
// that has failed is tried again with the same id.
func TestCrashKill(t *testing.T) {
	kills := crashes(t, ciKills)
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		led := killLoop(t, killPlan{kills: kills, store: `store: {url: "file:data"}`})
		led.Verdict(t, fmt.Sprintf("SQLite: kills=%d", kills), kills)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		database := pgtest.Start(t)
		const share = 10
		kills := kills
		if os.Getenv("CRASH") == "" {
			kills = crashes(t, 60) // each takes four times as long here
		}
		led := killLoop(t, killPlan{
			kills: kills, store: rig.OnPostgres(t, database.Schema(t)), database: database, share: share,
		})
		led.Verdict(t, fmt.Sprintf("PostgreSQL: kills=%d of them %d of the database", kills, (kills+share-1)/share), kills)
	})
}

// TestCrashKillControl has what TestCrashKill must notice: a server that commits
// after its answer, and a database that does. If nothing is lost, TestCrashKill
// proves nothing.
func TestCrashKillControl(t *testing.T) {
	t.Run("answer before commit", func(t *testing.T) {
		led := killLoop(t, killPlan{kills: 5, store: `store: {url: "file:data"}`, env: []string{rig.ChildEarly + "=1"}})
		led.MustLose(t)
	})
	t.Run("synchronous_commit off", func(t *testing.T) {
		if os.Getenv("CRASH") == "" {
			t.Skip(
				"PostgreSQL writes whenever a page of its log is full: a result or two are lost in some of the crashes alone, so that it takes twenty to be sure; go -C testing run ./long crash has them")
		}
		database := pgtest.Start(t)
		url := database.Schema(t)
		led := killLoop(t, killPlan{
			kills: 20, store: rig.OnPostgres(t, url), database: database, share: 1,
			before: func() {
				// The server sets it in every session; so take it back in every transaction.
				database.Exec(t, url, `CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS
					$$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NEW; END $$`)
				database.Exec(t, url, `CREATE TRIGGER later BEFORE INSERT OR UPDATE ON txns FOR EACH ROW EXECUTE FUNCTION later()`)
				// It would write soon by itself, and there would be little to lose.
				database.Exec(t, url, `ALTER SYSTEM SET wal_writer_delay = '10s'`)
				database.Exec(t, url, `SELECT pg_reload_conf()`)
				t.Cleanup(func() {
					database.Exec(t, url, `ALTER SYSTEM RESET wal_writer_delay`)
					database.Exec(t, url, `SELECT pg_reload_conf()`)
				})
			},
		})
		led.MustLose(t)
	})
}
